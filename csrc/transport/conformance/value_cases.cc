// Right results for every op, type, reduction, number of ranks and size.
#include <cstring>

#include "csrc/transport/conformance/cases.h"
#include "csrc/transport/conformance/plan.h"
#include "csrc/transport/conformance/slow_build.h"

namespace npu_bridge {
namespace conformance {
namespace {

const std::vector<int> kSizes = {1, 2, 3, 4, 8};

// Around cache lines, blocks of the reduction and the limits between ways of moving.
const std::vector<std::uint64_t> kCounts = {
    0, 1, 7, 33, 1000, 4099, kIsSlowBuild ? 9001u : 100003u};

// One batch after another: all requests of a batch are in flight together, in any order.
Case BatchCase(const std::string& name,
               const std::function<std::vector<std::vector<Description>>(int size)>& batches) {
  Case made;
  made.name = name;
  made.sizes = kSizes;
  made.run = [batches](Cluster& cluster, int size) {
    const std::vector<std::vector<Description>> all = batches(size);
    WorldOptions options;
    options.size = size;
    return cluster.Run(options, [&all](Rank& rank) {
      std::uint64_t seed = 1;
      for (const std::vector<Description>& batch : all) {
        RunAll(rank, rank.world(), batch, seed++);
        rank.Barrier();
      }
    });
  };
  return made;
}

Case EveryType(const std::string& name, Collective collective, bool with_overlaps = false,
               bool with_gaps = false) {
  return BatchCase(name, [=](int size) {
    std::vector<std::vector<Description>> batches;
    std::uint64_t number = 1;
    const bool reducing = IsReducing(collective);
    for (const DataType type : reducing ? ReducibleTypes() : AllTypes()) {
      std::vector<Description> batch;
      for (const Reduction reduction :
           reducing ? AllReductions() : std::vector<Reduction>{Reduction::kNone}) {
        for (const std::uint64_t count : kCounts) {
          Description description;
          description.collective = collective;
          description.reduction = reduction;
          description.types = {type};
          description.counts = {count};
          description.number = number++;
          description.root =
              static_cast<std::int32_t>(description.number % static_cast<std::uint64_t>(size));
          description.has_overlaps = with_overlaps;
          description.has_gaps = with_gaps;
          batch.push_back(description);
        }
      }
      batches.push_back(batch);
    }
    return batches;
  });
}

// To the next rank, to the one before, and to itself.
Case SendReceive() {
  return BatchCase("SendReceiveEveryType", [](int size) {
    std::vector<std::vector<Description>> batches;
    std::uint64_t number = 1;
    for (const DataType type : AllTypes()) {
      std::vector<Description> batch;
      for (const std::uint64_t count : kCounts) {
        for (const std::int32_t shift : {1, size - 1, size}) {
          Description description;
          description.collective = Collective::kSend;
          description.types = {type, DataType::kInt8};
          description.counts = {count, 5};
          description.peer_shift = shift;
          description.number = number++;
          batch.push_back(description);
          description.collective = Collective::kReceive;
          batch.push_back(description);
        }
      }
      batches.push_back(batch);
    }
    return batches;
  });
}

// Several tensors in one request: small, large, empty, and together across the limits.
Case Fused() {
  return BatchCase("SeveralTensorsInOneRequest", [](int size) {
    const std::vector<std::vector<std::uint64_t>> lists = {
        {},          {0},          {0, 0, 0},
        {1, 0, 7},   {3, 1000, 1}, {5000, 0, 1, kIsSlowBuild ? 9001u : 70001u, 33},
        {8191, 8193}};
    std::vector<std::vector<Description>> batches;
    std::uint64_t number = 1;
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter,
          Collective::kAllGather, Collective::kAllToAllV, Collective::kBroadcast}) {
      const bool reducing = IsReducing(collective);
      for (const DataType type : reducing ? ReducibleTypes() : AllTypes()) {
        std::vector<Description> batch;
        for (const Reduction reduction :
             reducing ? AllReductions() : std::vector<Reduction>{Reduction::kNone}) {
          for (const std::vector<std::uint64_t>& counts : lists) {
            Description description;
            description.collective = collective;
            description.reduction = reduction;
            description.types.assign(counts.size(), type);
            description.counts = counts;
            description.number = number++;
            description.root = static_cast<std::int32_t>(number % static_cast<std::uint64_t>(size));
            description.has_gaps = number % 2 == 0;
            // A list may mix types where nothing is reduced.
            for (std::size_t t = 1; t < counts.size() && !reducing; ++t) {
              description.types[t] = AllTypes()[(number + t) % AllTypes().size()];
            }
            batch.push_back(description);
          }
        }
        batches.push_back(batch);
      }
    }
    return batches;
  });
}

// The same inputs give the same bits in every call, NaN and all.
Case Repeats() {
  Case made;
  made.name = "RepeatsGiveTheSameBits";
  made.sizes = kSizes;
  made.run = [](Cluster& cluster, int size) {
    WorldOptions options;
    options.size = size;
    return cluster.Run(options, [](Rank& rank) {
      for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
        Bytes first;
        const Bytes input = MakeInput(type, 33333, static_cast<std::uint64_t>(rank.index()) + 1);
        for (std::uint64_t repeat = 0; repeat < 10; ++repeat) {
          Call call;
          call.match_id = 1 + repeat + 100 * static_cast<std::uint64_t>(type);
          call.match_slot = static_cast<std::uint32_t>(call.match_id);
          CallTensor tensor;
          tensor.type = type;
          tensor.input = input.data();
          tensor.input_count = tensor.result_count = 33333;
          call.tensors.push_back(tensor);
          call.Start(rank.world());
          if (!rank.ExpectOk(call.Wait(), "allreduce")) continue;
          const char* data = static_cast<const char*>(call.data(0));
          if (repeat == 0) first.assign(data, data + input.size());
          if (std::memcmp(first.data(), data, first.size()) != 0) {
            rank.Fail(std::string(DataTypeName(type)) + ": repeat " + std::to_string(repeat) +
                      " gave other bits");
          }
        }
        rank.Barrier();
      }
    });
  };
  return made;
}

}  // namespace

std::vector<Case> ValueCases() {
  return {
      EveryType("AllReduceEveryType", Collective::kAllReduce),
      EveryType("ReduceEveryType", Collective::kReduce),
      EveryType("ReduceScatterEveryType", Collective::kReduceScatter),
      EveryType("AllGatherEveryType", Collective::kAllGather),
      EveryType("BroadcastEveryType", Collective::kBroadcast),
      EveryType("AllToAllEveryType", Collective::kAllToAllV),
      EveryType("AllToAllOverlapping", Collective::kAllToAllV, /*with_overlaps=*/true),
      EveryType("AllToAllWithGaps", Collective::kAllToAllV, false, /*with_gaps=*/true),
      EveryType("AllToAllOverlappingWithGaps", Collective::kAllToAllV, true, true),
      SendReceive(),
      Fused(),
      Repeats(),
  };
}

}  // namespace conformance
}  // namespace npu_bridge
