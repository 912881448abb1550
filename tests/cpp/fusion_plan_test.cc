#include "csrc/tf/passes/fusion_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace npu_bridge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Builds graphs by names, as a person would draw them.
class Drawing {
 public:
  std::size_t Node(const std::string& name) {
    graph.names.push_back(name);
    return places_[name] = graph.names.size() - 1;
  }

  FusionCollective& Op(const std::string& name, Collective kind = Collective::kAllReduce) {
    FusionCollective one;
    one.node = Node(name);
    one.name = name;
    one.kind = kind;
    one.group = "hccl_world_group";
    one.reduction = IsReducing(kind) ? Reduction::kSum : Reduction::kNone;
    one.fusion = 2;
    one.fusion_id = 0;
    one.rank_size = 2;
    one.types = {DataType::kFloat32};
    one.bytes = 4;
    graph.collectives.push_back(one);
    return graph.collectives.back();
  }

  void Ops(const std::vector<std::string>& names, Collective kind = Collective::kAllReduce) {
    for (const std::string& name : names) Op(name, kind);
  }

  FusionCollective& operator[](const std::string& name) {
    for (FusionCollective& one : graph.collectives) {
      if (one.name == name) return one;
    }
    ADD_FAILURE() << "no op " << name;
    return graph.collectives[0];
  }

  void Edge(const std::string& from, const std::string& to, bool is_control = false) {
    graph.edges.push_back({places_.at(from), places_.at(to), is_control});
  }
  void Control(const std::string& from, const std::string& to) { Edge(from, to, true); }

  // Members of each segment by name.
  std::vector<std::vector<std::string>> Plan() {
    status = PlanFusion(graph, settings, &plan);
    std::vector<std::vector<std::string>> segments;
    for (const FusionSegment& segment : plan.segments) {
      segments.emplace_back();
      for (const std::size_t i : segment.members) {
        segments.back().push_back(graph.collectives[i].name);
      }
    }
    return segments;
  }

  std::string Reason(const std::string& name) {
    for (std::size_t i = 0; i < graph.collectives.size(); ++i) {
      if (graph.collectives[i].name == name) return plan.reasons.at(i);
    }
    return "no such op";
  }

  std::vector<std::string> Dropped() const {
    std::vector<std::string> edges;
    for (const std::size_t i : plan.dropped_edges) {
      edges.push_back(graph.names[graph.edges[i].from] + ">" + graph.names[graph.edges[i].to]);
    }
    return edges;
  }

  FusionGraph graph;
  FusionSettings settings;
  FusionPlan plan;
  Status status;

 private:
  std::map<std::string, std::size_t> places_;
};

std::vector<std::string> Names(const std::string& prefix, int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(prefix + std::to_string(i));
  return names;
}

struct Difference {
  const char* what;
  Collective kind;
  std::function<void(FusionCollective*)> make;
  bool merged;
};

class FusionKeys : public ::testing::TestWithParam<Difference> {};

TEST_P(FusionKeys, OpsThatDiffer) {
  Drawing drawing;
  drawing.Ops({"a", "b"}, GetParam().kind);
  GetParam().make(&drawing["b"]);
  if (GetParam().merged) {
    EXPECT_THAT(drawing.Plan(), ElementsAre(ElementsAre("a", "b")));
    EXPECT_EQ(drawing.Reason("a"), "");
  } else {
    EXPECT_THAT(drawing.Plan(), IsEmpty());
    EXPECT_THAT(drawing.Reason("a"), HasSubstr("no other op"));
    EXPECT_NE(drawing.Reason("b"), "");
  }
}

const Difference kDifferences[] = {
    {"nothing_allreduce", Collective::kAllReduce, [](FusionCollective*) {}, true},
    {"nothing_allgather", Collective::kAllGather, [](FusionCollective*) {}, true},
    {"nothing_broadcast", Collective::kBroadcast, [](FusionCollective*) {}, true},
    {"nothing_reduce", Collective::kReduce, [](FusionCollective*) {}, true},
    {"nothing_reduce_scatter", Collective::kReduceScatter, [](FusionCollective*) {}, true},
    {"nothing_all_to_all_v_c", Collective::kAllToAllVC, [](FusionCollective*) {}, true},
    {"size", Collective::kAllReduce, [](FusionCollective* b) { b->bytes = 4000; }, true},
    {"group", Collective::kAllReduce, [](FusionCollective* b) { b->group = "other"; }, false},
    {"fusion_id", Collective::kBroadcast, [](FusionCollective* b) { b->fusion_id = 1; }, false},
    {"dtype", Collective::kAllReduce, [](FusionCollective* b) { b->types = {DataType::kFloat16}; },
     false},
    {"kind", Collective::kAllReduce, [](FusionCollective* b) { b->kind = Collective::kReduce; },
     false},
    {"reduction_max", Collective::kAllReduce,
     [](FusionCollective* b) { b->reduction = Reduction::kMax; }, false},
    {"root_of_broadcast", Collective::kBroadcast, [](FusionCollective* b) { b->root_rank = 1; },
     false},
    {"root_of_reduce", Collective::kReduce, [](FusionCollective* b) { b->root_rank = 1; }, false},
    {"rank_size_of_allgather", Collective::kAllGather,
     [](FusionCollective* b) { b->rank_size = 3; }, false},
    {"rank_size_of_reduce_scatter", Collective::kReduceScatter,
     [](FusionCollective* b) { b->rank_size = 3; }, false},
    {"rank_of_all_to_all_v_c", Collective::kAllToAllVC, [](FusionCollective* b) { b->rank = 1; },
     false},
    {"device", Collective::kAllReduce, [](FusionCollective* b) { b->device = "CPU:1"; }, false},
    {"loop_or_branch", Collective::kAllReduce, [](FusionCollective* b) { b->context = 7; }, false},
    {"mixed_list", Collective::kBroadcast,
     [](FusionCollective* b) { b->types = {DataType::kFloat32, DataType::kInt8}; }, false},
    {"longer_list", Collective::kBroadcast,
     [](FusionCollective* b) { b->types = {DataType::kFloat32, DataType::kFloat32}; }, true},
    {"no_tensor", Collective::kBroadcast, [](FusionCollective* b) { b->types.clear(); }, false},
    {"unknown_shape", Collective::kAllReduce, [](FusionCollective* b) { b->bytes = -1; }, false},
    {"empty_tensor", Collective::kAllReduce, [](FusionCollective* b) { b->bytes = 0; }, true},
};

INSTANTIATE_TEST_SUITE_P(All, FusionKeys, ::testing::ValuesIn(kDifferences),
                         [](const auto& info) { return std::string(info.param.what); });

TEST(FusionPlan, ValuesOfFusion) {
  const struct {
    Collective kind;
    std::int64_t fusion;
    std::int64_t fusion_id;
    const char* reason;
  } table[] = {
      {Collective::kAllReduce, 0, 5, "fusion is 0"},
      {Collective::kAllReduce, 1, 0, "fusion is 1 and fusion_id is 0: fusion 1 needs fusion_id -1"},
      {Collective::kAllReduce, 2, -1, "fusion_id is -1: fusion 2 needs a fusion_id from 0"},
      {Collective::kAllReduce, 2, 2147483648, "fusion 2 needs a fusion_id"},
      {Collective::kAllReduce, 3, 0, "fusion is 3 and fusion_id is 0: allowed are 0, 1 and 2"},
      {Collective::kAllReduce, -1, 0, "allowed are 0, 1 and 2"},
      {Collective::kBroadcast, 1, -1, "allowed are 0 and 2"},
      {Collective::kAllToAllV, 2, 0, "HcomAllToAllV is never merged"},
      {Collective::kSend, 2, 0, "HcomSend is never merged"},
  };
  for (const auto& row : table) {
    Drawing drawing;
    drawing.Ops({"a", "b"}, row.kind);
    for (const char* name : {"a", "b"}) {
      drawing[name].fusion = row.fusion;
      drawing[name].fusion_id = row.fusion_id;
    }
    EXPECT_THAT(drawing.Plan(), IsEmpty());
    EXPECT_THAT(drawing.Reason("a"), HasSubstr(row.reason));
    EXPECT_TRUE(drawing.status.ok());
  }
  Drawing largest;
  largest.Ops({"a", "b"});
  for (const char* name : {"a", "b"}) largest[name].fusion_id = 2147483647;
  EXPECT_THAT(largest.Plan(), ElementsAre(ElementsAre("a", "b")));
}

TEST(FusionPlan, OnlySumsAreMerged) {
  for (Collective kind :
       {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter}) {
    for (Reduction reduction : {Reduction::kProd, Reduction::kMax, Reduction::kMin}) {
      Drawing drawing;
      drawing.Ops({"a", "b"}, kind);
      drawing["a"].reduction = drawing["b"].reduction = reduction;
      EXPECT_THAT(drawing.Plan(), IsEmpty());
      EXPECT_THAT(drawing.Reason("a"), HasSubstr("only sum is merged"));
    }
  }
}

TEST(FusionPlan, SegmentsStayWithinTheLimit) {
  const struct {
    std::vector<std::int64_t> bytes;
    std::vector<std::vector<std::string>> segments;
  } table[] = {
      {{50, 49}, {{"g0", "g1"}}},  // limit - 1
      {{50, 50}, {{"g0", "g1"}}},  // limit
      {{50, 51}, {}},              // limit + 1
      {{100, 0}, {{"g0", "g1"}}},
      {{101, 1, 1}, {{"g1", "g2"}}},
      {{60, 60, 40, 40, 60}, {{"g1", "g2"}, {"g3", "g4"}}},
      {{1, 101, 1}, {{"g0", "g2"}}},
  };
  for (const auto& row : table) {
    Drawing drawing;
    drawing.settings.segment_bytes = 100;
    for (std::size_t i = 0; i < row.bytes.size(); ++i) {
      drawing.Op("g" + std::to_string(i)).bytes = row.bytes[i];
    }
    EXPECT_EQ(drawing.Plan(), row.segments);
    for (const FusionSegment& segment : drawing.plan.segments) EXPECT_LE(segment.bytes, 100);
  }
  Drawing large;
  large.Ops({"a", "b"});
  large["a"].bytes = 524288001;
  large.Plan();
  EXPECT_THAT(large.Reason("a"), HasSubstr("524288001 bytes are more than FUSION_TENSOR_SIZE"));
}

void MakeGradients(Drawing* drawing, const std::vector<std::int64_t>& bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    FusionCollective& one = drawing->Op("g" + std::to_string(i));
    one.fusion = 1;
    one.fusion_id = -1;
    one.bytes = bytes[i];
  }
}

TEST(FusionPlan, GradientsByDefaultAreCutByTheirBytes) {
  Drawing drawing;
  MakeGradients(&drawing, {5000, 4654, 200, 146});  // 96.54 % of 10000 end after the second
  EXPECT_THAT(drawing.Plan(), ElementsAre(ElementsAre("g0", "g1"), ElementsAre("g2", "g3")));

  Drawing beyond;
  MakeGradients(&beyond, {5000, 4655, 199, 146});
  EXPECT_THAT(beyond.Plan(), ElementsAre(ElementsAre("g1", "g2", "g3")));

  Drawing last_large;
  MakeGradients(&last_large, {10, 10, 10, 9970});
  EXPECT_THAT(last_large.Plan(), ElementsAre(ElementsAre("g0", "g1", "g2")));

  Drawing one;
  MakeGradients(&one, {1});
  EXPECT_THAT(one.Plan(), IsEmpty());
}

TEST(FusionPlan, GradientsByIndex) {
  Drawing drawing;
  MakeGradients(&drawing, std::vector<std::int64_t>(12, 4));
  drawing.settings.split_strategies["hccl_world_group"].last_indices = {1, 2, 8};
  EXPECT_THAT(drawing.Plan(),
              ElementsAre(ElementsAre("g0", "g1"), ElementsAre("g3", "g4", "g5", "g6", "g7", "g8"),
                          ElementsAre("g9", "g10", "g11")));
  EXPECT_THAT(drawing.Reason("g2"), HasSubstr("same part of a split strategy"));

  drawing.settings.split_strategies["hccl_world_group"].last_indices = {3, 11};
  EXPECT_EQ(drawing.Plan().size(), 2u);
  drawing.settings.split_strategies["hccl_world_group"].last_indices = {3, 12};
  drawing.Plan();
  EXPECT_EQ(drawing.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(drawing.status.message(),
              HasSubstr("the index 12, but the graph has 12 gradients of the group"));
}

TEST(FusionPlan, GradientsBySize) {
  Drawing drawing;
  MakeGradients(&drawing, std::vector<std::int64_t>(10, 8));
  drawing.settings.split_strategies["hccl_world_group"].percentages = {20, 0, 50, 30};
  EXPECT_THAT(drawing.Plan(),
              ElementsAre(ElementsAre("g0", "g1"), ElementsAre("g2", "g3", "g4", "g5", "g6"),
                          ElementsAre("g7", "g8", "g9")));
  drawing.settings.split_strategies["hccl_world_group"].percentages = {100};
  EXPECT_EQ(drawing.Plan().size(), 1u);
}

TEST(FusionPlan, AStrategyIsOfItsGroup) {
  Drawing drawing;
  MakeGradients(&drawing, std::vector<std::int64_t>(6, 4));
  for (const char* name : {"g1", "g3", "g5"}) drawing[name].group = "pair";
  drawing.settings.split_strategies["pair"].last_indices = {2};
  drawing.settings.split_strategies["hccl_world_group"].last_indices = {0, 2};
  EXPECT_THAT(drawing.Plan(), ElementsAre(ElementsAre("g1", "g3", "g5"), ElementsAre("g2", "g4")));
}

TEST(FusionPlan, GradientsOfSeveralDtypesKeepTheirPlaces) {
  Drawing drawing;
  MakeGradients(&drawing, std::vector<std::int64_t>(6, 4));
  for (const char* name : {"g0", "g2"}) drawing[name].types = {DataType::kFloat16};
  drawing["g4"].bytes = -1;
  drawing.settings.split_strategies["hccl_world_group"].last_indices = {3, 5};
  EXPECT_THAT(drawing.Plan(), ElementsAre(ElementsAre("g0", "g2"), ElementsAre("g1", "g3")));
}

TEST(FusionPlan, ADataPathKeepsOpsApart) {
  Drawing drawing;
  drawing.Ops({"a", "b", "c"});
  drawing.Node("x");
  drawing.Edge("a", "x");
  drawing.Edge("x", "b");
  EXPECT_THAT(drawing.Plan(), ElementsAre(ElementsAre("a", "c")));
  EXPECT_THAT(drawing.Reason("b"), HasSubstr("depend"));

  Drawing direct;
  direct.Ops({"a", "b"});
  direct.Edge("a", "b");
  EXPECT_THAT(direct.Plan(), IsEmpty());
}

TEST(FusionPlan, AControlPathThroughAnotherOpKeepsOpsApart) {
  Drawing drawing;
  drawing.Ops({"a", "b"});
  drawing.Node("x");
  drawing.Control("a", "x");
  drawing.Control("x", "b");
  EXPECT_THAT(drawing.Plan(), IsEmpty());
}

TEST(FusionPlan, StraightControlEdgesBetweenMembersAreDropped) {
  Drawing drawing;
  drawing.Ops(Names("g", 5));
  for (int i = 0; i < 4; ++i) {
    drawing.Control("g" + std::to_string(i), "g" + std::to_string(i + 1));
  }
  EXPECT_THAT(drawing.Plan(), ElementsAre(ElementsAre("g0", "g1", "g2", "g3", "g4")));
  EXPECT_EQ(drawing.plan.dropped_edges.size(), 4u);
}

TEST(FusionPlan, StraightControlEdgesAreKeptWhereTheyCloseNoCycle) {
  Drawing drawing;
  drawing.Ops({"a1", "a2"});
  drawing.Op("s", Collective::kSend);
  drawing.Op("t", Collective::kSend);
  drawing.Control("a1", "s");
  drawing.Control("s", "a2");
  drawing.Control("a2", "t");
  EXPECT_THAT(drawing.Plan(), ElementsAre(ElementsAre("a1", "a2")));
  EXPECT_THAT(drawing.Dropped(), ElementsAre("s>a2"));

  Drawing kept;
  kept.Ops({"b1", "b2"});
  kept.Op("a", Collective::kSend);
  kept.Control("a", "b2");
  EXPECT_THAT(kept.Plan(), ElementsAre(ElementsAre("b1", "b2")));
  EXPECT_THAT(kept.Dropped(), IsEmpty());
}

TEST(FusionPlan, TwoSetsThatDependOnEachOther) {
  Drawing drawing;
  drawing.Ops({"a1", "a2"});
  drawing.Ops({"b1", "b2"}, Collective::kAllGather);
  drawing.Edge("a1", "b1");
  drawing.Edge("b2", "a2");
  EXPECT_THAT(drawing.Plan(), ElementsAre(ElementsAre("a1", "a2")));
  EXPECT_THAT(drawing.Reason("b1"), HasSubstr("depend"));
}

TEST(FusionPlan, LayersOfDependentMembers) {
  Drawing drawing;
  drawing.Ops(Names("a", 3));
  drawing.Ops(Names("b", 3));
  for (int i = 0; i < 3; ++i) drawing.Edge("a" + std::to_string(i), "b0");
  drawing.Edge("a0", "b1");
  drawing.Edge("a1", "b2");
  EXPECT_THAT(drawing.Plan(),
              ElementsAre(ElementsAre("a0", "a1", "a2"), ElementsAre("b0", "b1", "b2")));
}

TEST(FusionPlan, GraphOrderIsTopologicalThenByName) {
  Drawing drawing;
  drawing.Ops({"op_10", "op_9", "op_1", "op_2"});
  drawing.Node("input");
  EXPECT_THAT(drawing.Plan(), ElementsAre(ElementsAre("op_1", "op_2", "op_9", "op_10")));
  drawing.Node("z");
  drawing.Edge("z", "op_1");
  EXPECT_THAT(drawing.Plan(), ElementsAre(ElementsAre("op_2", "op_9", "op_10", "op_1")));
}

// Ranks may differ in the nodes between collectives; in what depends on what they do not.
TEST(FusionPlan, NodesWithoutANameDoNotOrder) {
  for (const bool has_more : {false, true}) {
    Drawing drawing;
    drawing.Ops({"op_3", "op_1", "op_2"});
    drawing.Node("");
    if (has_more) {
      drawing.graph.names.resize(6);
      drawing.graph.edges = {{4, 1, false}, {5, 4, false}, {3, 5, false}};
    }
    EXPECT_THAT(drawing.Plan(), ElementsAre(ElementsAre("op_1", "op_2", "op_3")));
  }
}

TEST(FusionPlan, ACycleIsAnError) {
  Drawing drawing;
  drawing.Ops({"a", "b"});
  drawing.Edge("a", "b");
  drawing.Edge("b", "a");
  drawing.Plan();
  EXPECT_EQ(drawing.status.code(), StatusCode::kInternal);
}

TEST(FusionPlan, DefaultFusionIdWithOtherRootsAndGroups) {
  Drawing drawing;
  drawing.Ops(Names("v", 6), Collective::kBroadcast);
  drawing["v1"].root_rank = drawing["v4"].root_rank = 1;
  drawing["v2"].group = drawing["v5"].group = "pair";
  EXPECT_THAT(drawing.Plan(), ElementsAre(ElementsAre("v0", "v3"), ElementsAre("v1", "v4"),
                                          ElementsAre("v2", "v5")));
}

// Random graphs: no cycle, limits kept, and the same plan when the nodes come in another order.
class RandomFusionGraphs : public ::testing::TestWithParam<int> {};

FusionGraph RandomGraph(std::mt19937* random) {
  const auto below = [random](int n) {
    return static_cast<int>(std::uniform_int_distribution<int>(0, n - 1)(*random));
  };
  Drawing drawing;
  const int count = 4 + below(40);
  for (int i = 0; i < count; ++i) {
    const std::string name = "n" + std::to_string(i);
    if (below(3) == 0) {
      drawing.Node(name);
      continue;
    }
    const Collective kinds[] = {Collective::kAllReduce, Collective::kAllGather, Collective::kSend,
                                Collective::kBroadcast};
    FusionCollective& one = drawing.Op(name, kinds[below(4)]);
    one.fusion_id = below(2);
    one.bytes = below(60);
    one.context = below(4) == 0 ? 1 : 0;
  }
  for (int i = 0; i < count; ++i) {
    for (int j = i + 1; j < count; ++j) {
      if (below(12) == 0) {
        drawing.Edge("n" + std::to_string(i), "n" + std::to_string(j), below(2) == 0);
      }
    }
  }
  return drawing.graph;
}

FusionGraph Shuffled(const FusionGraph& graph, std::mt19937* random) {
  std::vector<std::size_t> place(graph.names.size());
  for (std::size_t i = 0; i < place.size(); ++i) place[i] = i;
  std::shuffle(place.begin(), place.end(), *random);
  FusionGraph other = graph;
  for (std::size_t i = 0; i < place.size(); ++i) other.names[place[i]] = graph.names[i];
  for (FusionCollective& one : other.collectives) one.node = place[one.node];
  for (FusionGraph::Edge& edge : other.edges) {
    edge.from = place[edge.from];
    edge.to = place[edge.to];
  }
  std::shuffle(other.collectives.begin(), other.collectives.end(), *random);
  std::shuffle(other.edges.begin(), other.edges.end(), *random);
  return other;
}

// What a person would compare: names only.
std::set<std::string> Describe(const FusionGraph& graph, const FusionPlan& plan) {
  std::set<std::string> lines;
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    std::string line = "segment " + std::to_string(s) + " " + plan.segments[s].key + ":";
    for (const std::size_t i : plan.segments[s].members) line += " " + graph.collectives[i].name;
    lines.insert(line);
  }
  for (std::size_t i = 0; i < plan.reasons.size(); ++i) {
    lines.insert(graph.collectives[i].name + ": " + plan.reasons[i]);
  }
  std::map<std::string, int> dropped;
  for (const std::size_t i : plan.dropped_edges) {
    ++dropped[graph.names[graph.edges[i].from] + ">" + graph.names[graph.edges[i].to]];
  }
  for (const auto& edge : dropped) lines.insert(edge.first + " " + std::to_string(edge.second));
  return lines;
}

bool IsAcyclicAfter(const FusionGraph& graph, const FusionPlan& plan) {
  std::vector<std::size_t> standing(graph.names.size());
  for (std::size_t i = 0; i < standing.size(); ++i) standing[i] = i;
  for (const FusionSegment& segment : plan.segments) {
    for (const std::size_t i : segment.members) {
      standing[graph.collectives[i].node] = graph.collectives[segment.members[0]].node;
    }
  }
  std::vector<std::set<std::size_t>> next(graph.names.size());
  for (std::size_t i = 0; i < graph.edges.size(); ++i) {
    if (std::binary_search(plan.dropped_edges.begin(), plan.dropped_edges.end(), i)) continue;
    next[standing[graph.edges[i].from]].insert(standing[graph.edges[i].to]);
  }
  // Repeatedly removes what leads nowhere.
  bool changed = true;
  std::set<std::size_t> left(standing.begin(), standing.end());
  while (changed) {
    changed = false;
    for (auto node = left.begin(); node != left.end();) {
      const bool leads = std::any_of(next[*node].begin(), next[*node].end(),
                                     [&left](std::size_t to) { return left.count(to) > 0; });
      changed = changed || !leads;
      node = leads ? std::next(node) : left.erase(node);
    }
  }
  return left.empty();
}

TEST_P(RandomFusionGraphs, HaveOnePlanWithoutCycles) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  FusionSettings settings;
  settings.segment_bytes = 100;
  std::size_t merged = 0;
  for (int round = 0; round < 200; ++round) {
    const FusionGraph graph = RandomGraph(&random);
    FusionPlan plan;
    ASSERT_TRUE(PlanFusion(graph, settings, &plan).ok());
    ASSERT_TRUE(IsAcyclicAfter(graph, plan));
    for (const FusionSegment& segment : plan.segments) {
      ASSERT_GE(segment.members.size(), 2u);
      ASSERT_LE(segment.bytes, 100);
      const FusionCollective& first = graph.collectives[segment.members[0]];
      for (const std::size_t i : segment.members) {
        ASSERT_EQ(graph.collectives[i].context, first.context);
        ASSERT_EQ(graph.collectives[i].kind, first.kind);
        ASSERT_EQ(plan.reasons[i], "");
      }
      merged += segment.members.size();
    }
    const FusionGraph other = Shuffled(graph, &random);
    FusionPlan other_plan;
    ASSERT_TRUE(PlanFusion(other, settings, &other_plan).ok());
    ASSERT_EQ(Describe(graph, plan), Describe(other, other_plan));
  }
  EXPECT_GT(merged, 200u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomFusionGraphs, ::testing::Range(0, 5));

// A plan for a large model must not take longer than its training step.
TEST(FusionPlan, ThousandsOfGradientsInALargeGraph) {
  Drawing drawing;
  constexpr int kGradients = 3000;
  for (int i = 0; i < kGradients; ++i) {
    const std::string number = std::to_string(i);
    for (int k = 0; k < 20; ++k) drawing.Node("layer_" + number + "_" + std::to_string(k));
    drawing.Op("gradient_" + number);
    for (int k = 0; k < 19; ++k) {
      drawing.Edge("layer_" + number + "_" + std::to_string(k),
                   "layer_" + number + "_" + std::to_string(k + 1));
    }
    drawing.Edge("layer_" + number + "_19", "gradient_" + number);
    if (i > 0) {
      drawing.Edge("layer_" + std::to_string(i - 1) + "_19", "layer_" + number + "_0");
      drawing.Control("gradient_" + std::to_string(i - 1), "gradient_" + number);
    }
  }
  const auto segments = drawing.Plan();
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].size(), static_cast<std::size_t>(kGradients));
}

}  // namespace
}  // namespace npu_bridge
