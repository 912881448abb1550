// The comparison of fingerprints, and the sentences that tell the ranks apart.
#include <algorithm>
#include <functional>

#include "csrc/comm/fingerprint.h"
#include "csrc/comm/messages.h"

namespace npu_bridge {
namespace comm {
namespace {

class Comparison {
 public:
  Comparison(const Group& group, const std::vector<Fingerprint>& members)
      : group_(group), members_(members) {}

  Status Compare() const {
    Status status = CompareKinds();
    if (status.ok()) status = CompareAbsentEntries();
    if (status.ok()) status = CompareMembers();
    if (status.ok()) status = CompareTensorLists();
    if (status.ok()) status = CompareTensors();
    if (status.ok()) status = CompareReductions();
    if (status.ok()) status = CompareRoots();
    if (status.ok()) status = CompareMatrices();
    if (status.ok()) status = CompareCounts();
    if (status.ok()) status = CompareTensorNames();
    return status;
  }

 private:
  using Value = std::function<std::string(const Fingerprint&)>;

  const Fingerprint& first() const { return members_.front(); }

  template <typename Field>
  bool Differs(Field field) const {
    return std::any_of(members_.begin() + 1, members_.end(),
                       [&](const Fingerprint& member) { return field(member) != field(first()); });
  }

  bool NamesDiffer() const {
    return Differs([](const Fingerprint& member) { return member.node_name; });
  }

  // The head of every sentence. Where ranks call the op by different names, each side is named with
  // its own behind the value.
  std::string Op(bool with_kind = true) const {
    return (with_kind ? CollectiveName(first().collective) : "Op") + std::string(" '") +
           first().node_name + "' in group " + group_.name;
  }

  std::string Sides(const Value& value, const std::string& verb = "passed") const {
    const bool name = NamesDiffer();
    std::vector<std::string> values;
    for (const Fingerprint& member : members_) {
      values.push_back(value(member) + (name ? " ('" + member.node_name + "')" : ""));
    }
    return DescribeSides(group_, values, verb, verb);
  }

  // " for tensor 1 of 3" where there are several, " for 'grad_1'" in a fused op.
  std::string Which(std::size_t index) const {
    const std::size_t count = first().tensors.size();
    if (count <= 1) return "";
    std::int64_t end = 0;
    for (const Fingerprint::Member& member : first().members) {
      end += member.tensors;
      if (static_cast<std::int64_t>(index) < end) return " for '" + member.tag + "'";
    }
    return " for tensor " + std::to_string(index) + " of " + std::to_string(count);
  }

  Status CompareKinds() const {
    if (!Differs([](const Fingerprint& member) { return member.collective; })) return Status::Ok();
    return InvalidArgument(
        Op(false) + ": " +
        Sides([](const Fingerprint& member) { return CollectiveName(member.collective); },
              "called") +
        ". All ranks must call the same op.");
  }

  // Ops of the entries that are there on some ranks only would wait for ever.
  Status CompareAbsentEntries() const {
    if (!Differs([](const Fingerprint& member) { return member.absent_entries; })) {
      return Status::Ok();
    }
    return InvalidArgument(
        Op() + ": " + Sides([](const Fingerprint& member) {
          if (member.absent_entries.empty()) return std::string("an entry of a list without None");
          std::vector<std::int32_t> entries;
          for (std::int64_t entry : member.absent_entries) {
            entries.push_back(static_cast<std::int32_t>(entry));
          }
          const bool one = entries.size() == 1;
          return std::string("an entry of a list in which ") + (one ? "entry " : "entries ") +
                 JoinNumbers(entries) + (one ? " is None" : " are None");
        }) +
        ". All ranks must pass None at the same positions: replace None by tf.zeros_like of the "
        "variable.");
  }

  // What the fusion pass merged on each rank. Members that only some ranks have would shift the
  // data of those behind them.
  Status CompareMembers() const {
    if (!Differs([](const Fingerprint& member) { return member.members; })) return Status::Ok();
    return InvalidArgument(
        Op() + ": " + Sides([this](const Fingerprint& member) {
          return (member.members.empty()
                      ? std::string("the op alone")
                      : Count(static_cast<std::int64_t>(member.members.size()), "fused op")) +
                 LackOf(member);
        }) +
        ". Ops of one fusion_id run as one: all ranks must run (and fetch) the same of them, or "
        "give "
        "them fusion=0.");
  }

  // " without 'grad_2'": what others have and this one lacks.
  std::string LackOf(const Fingerprint& one) const {
    constexpr std::size_t kMostTold = 8;
    std::vector<std::string> lacking;
    for (const Fingerprint& other : members_) {
      for (const Fingerprint::Member& member : other.members) {
        const bool has =
            std::find(one.members.begin(), one.members.end(), member) != one.members.end();
        const std::string quoted = "'" + member.tag + "'";
        if (!has && std::find(lacking.begin(), lacking.end(), quoted) == lacking.end()) {
          lacking.push_back(quoted);
        }
      }
    }
    std::string text;
    for (std::size_t i = 0; i < lacking.size() && i < kMostTold; ++i) {
      text += (i == 0 ? " without " : ", ") + lacking[i];
    }
    if (lacking.size() > kMostTold) {
      text += " and " + std::to_string(lacking.size() - kMostTold) + " more";
    }
    return text;
  }

  Status CompareTensorLists() const {
    if (!Differs([](const Fingerprint& member) { return member.tensors.size(); })) {
      return Status::Ok();
    }
    return InvalidArgument(Op() + ": " + Sides([](const Fingerprint& member) {
                             return Count(static_cast<std::int64_t>(member.tensors.size()),
                                          "tensor");
                           }) +
                           ". All ranks must pass the same list of tensors.");
  }

  Status CompareTensors() const {
    const bool any_shape = first().collective == Collective::kAllToAllV ||
                           first().collective == Collective::kAllToAllVC;
    const std::size_t count = first().tensors.size();
    for (std::size_t i = 0; i < count; ++i) {
      const bool types = Differs([i](const Fingerprint& member) { return member.tensors[i].type; });
      const bool shapes =
          !any_shape && Differs([i](const Fingerprint& member) { return member.tensors[i].shape; });
      if (!types && !shapes) continue;
      const std::string which = Which(i);
      const char* rule = !shapes ? "dtype" : !types ? "shape" : "dtype and the same shape";
      return InvalidArgument(Op() + ": " + Sides([&](const Fingerprint& member) {
                               const Fingerprint::Tensor& tensor = member.tensors[i];
                               return DescribeTensor(tensor.type, tensor.shape) + which;
                             }) +
                             ". All ranks must pass the same " + rule + ".");
    }
    return Status::Ok();
  }

  // Ranks that know no name of a tensor have no part in this.
  bool TensorNamesDiffer(std::size_t index) const {
    const std::string* known = nullptr;
    for (const Fingerprint& member : members_) {
      const std::string& name = member.tensors[index].name;
      if (name.empty()) continue;
      if (known != nullptr && name != *known) return true;
      known = &name;
    }
    return false;
  }

  Status CompareTensorNames() const {
    for (std::size_t i = 0; i < first().tensors.size(); ++i) {
      if (!TensorNamesDiffer(i)) continue;
      return InvalidArgument(
          Op() + ": " + Sides([&](const Fingerprint& member) {
            const std::string& name = member.tensors[i].name;
            return (name.empty() ? "a tensor of unknown name" : "tensor '" + name + "'") + Which(i);
          }) +
          ". NPU_BRIDGE_CHECK_NAMES=1 asks for tensors of the same names on all ranks: create the "
          "ops, and list their tensors, in the same order on every rank, or give each op a name of "
          "its own (tf.name_scope).");
    }
    return Status::Ok();
  }

  Status CompareReductions() const {
    if (!Differs([](const Fingerprint& member) { return member.reduction; })) return Status::Ok();
    return InvalidArgument(Op() + ": " + Sides([](const Fingerprint& member) {
                             return std::string("reduction ") + ReductionName(member.reduction);
                           }) +
                           ". All ranks must pass the same reduction.");
  }

  Status CompareRoots() const {
    if (!Differs([](const Fingerprint& member) { return member.root; })) return Status::Ok();
    return InvalidArgument(Op() + ": " + Sides([](const Fingerprint& member) {
                             return "root_rank " + std::to_string(member.root);
                           }) +
                           ". All ranks must pass the same root_rank.");
  }

  Status CompareMatrices() const {
    const auto n = static_cast<std::size_t>(group_.size());
    for (std::size_t m = 0; m < first().count_matrices.size(); ++m) {
      for (std::size_t i = 0; i < n * n; ++i) {
        if (!Differs([&](const Fingerprint& member) { return member.count_matrices[m][i]; })) {
          continue;
        }
        const std::string place =
            std::to_string(i / n) + "," + std::to_string(i % n) + "]" +
            (first().tensors.size() > 1 ? " for tensor " + std::to_string(m) : std::string());
        return InvalidArgument(Op() + ": " + Sides([&](const Fingerprint& member) {
                                 return "send_count_matrix[" + place + " = " +
                                        std::to_string(member.count_matrices[m][i]);
                               }) +
                               ". All ranks must pass the same matrix.");
      }
    }
    return Status::Ok();
  }

  // What one rank sends must be what the other expects, or one would write past its buffer.
  Status CompareCounts() const {
    if (first().collective != Collective::kAllToAllV) return Status::Ok();
    const std::int32_t n = group_.size();
    for (std::int32_t sender = 0; sender < n; ++sender) {
      for (std::int32_t receiver = 0; receiver < n; ++receiver) {
        const std::int64_t sends = members_[static_cast<std::size_t>(sender)]
                                       .send_counts[static_cast<std::size_t>(receiver)];
        const std::int64_t expects = members_[static_cast<std::size_t>(receiver)]
                                         .receive_counts[static_cast<std::size_t>(sender)];
        if (sends == expects) continue;
        const std::string to = std::to_string(receiver);
        const std::string from = std::to_string(sender);
        return InvalidArgument(Op() + ": " + DescribeRank(group_, sender) + " sends " +
                               Count(sends, "element") + " to " + DescribeRank(group_, receiver) +
                               " (its send_counts[" + to + "]), but " +
                               DescribeRank(group_, receiver) + " expects " +
                               std::to_string(expects) + " from " + DescribeRank(group_, sender) +
                               " (its recv_counts[" + from + "]). The two must be equal.");
      }
    }
    return Status::Ok();
  }

  const Group& group_;
  const std::vector<Fingerprint>& members_;
};

// What Compare indexes by must be there, whatever the bytes in shared memory say.
bool SizesAreSound(const Group& group, const std::vector<Fingerprint>& members) {
  const auto n = static_cast<std::size_t>(group.size());
  if (members.size() != n) return false;
  for (const Fingerprint& member : members) {
    if (member.collective == Collective::kAllToAllV &&
        (member.send_counts.size() != n || member.receive_counts.size() != n)) {
      return false;
    }
    const std::size_t matrices =
        member.collective == Collective::kAllToAllVC ? member.tensors.size() : 0;
    if (member.count_matrices.size() != matrices) return false;
    for (const auto& matrix : member.count_matrices) {
      if (matrix.size() != n * n) return false;
    }
  }
  return true;
}

}  // namespace

Status CompareCollective(const Group& group, const std::vector<Fingerprint>& members) {
  if (!SizesAreSound(group, members)) {
    return Internal("An op in group " + group.name +
                    ": what a rank wrote into the matching table cannot be read. Do all ranks run "
                    "the same version of this package?");
  }
  return Comparison(group, members).Compare();
}

Status ComparePointToPoint(const Group& group, const Fingerprint& send,
                           const Fingerprint& receive) {
  if (send.tensors.size() != 1 || receive.tensors.size() != 1) {
    return Internal("A send in group " + group.name +
                    ": what a rank wrote into the matching table cannot be read. Do all ranks run "
                    "the same version of this package?");
  }
  const Fingerprint::Tensor& sent = send.tensors[0];
  const Fingerprint::Tensor& expected = receive.tensors[0];
  const bool types = sent.type != expected.type;
  const bool shapes = sent.shape != expected.shape;
  if (!types && !shapes) return Status::Ok();
  const char* rule = !shapes ? "dtype" : !types ? "shape" : "dtype and the same shape";
  return InvalidArgument(
      DescribeOp(Collective::kReceive, receive.node_name, group.name) + " (sr_tag " +
      std::to_string(receive.send_receive_tag) + "): " + DescribeRank(group, send.peer) +
      " expects " + DescribeTensor(expected.type, expected.shape) + " from " +
      DescribeRank(group, receive.peer) + ", which sent " + DescribeTensor(sent.type, sent.shape) +
      " (HcomSend '" + send.node_name + "'). Sender and receiver must name the same " + rule + ".");
}

}  // namespace comm
}  // namespace npu_bridge
