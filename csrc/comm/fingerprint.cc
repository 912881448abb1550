#include "csrc/comm/fingerprint.h"

#include <cstring>

#include "csrc/comm/messages.h"

namespace npu_bridge {
namespace comm {
namespace {

class Writer {
 public:
  explicit Writer(std::size_t expected) { bytes_.reserve(expected); }

  void Byte(std::int32_t value) { bytes_.push_back(static_cast<char>(value)); }
  void Number(std::int64_t value) { Raw(&value, sizeof(value)); }
  void Length(std::size_t value) {
    const auto length = static_cast<std::uint32_t>(value);
    Raw(&length, sizeof(length));
  }
  void Numbers(const std::vector<std::int64_t>& values) {
    Length(values.size());
    Raw(values.data(), values.size() * sizeof(std::int64_t));
  }
  void Text(const std::string& text) {
    Length(text.size());
    Raw(text.data(), text.size());
  }
  std::string Take() { return std::move(bytes_); }

 private:
  void Raw(const void* data, std::size_t size) {
    if (size > 0) bytes_.append(static_cast<const char*>(data), size);
  }

  std::string bytes_;
};

// Stops at the first thing that does not fit, and stays stopped.
class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}

  std::int32_t Byte() {
    char value = 0;
    Raw(&value, 1);
    return static_cast<signed char>(value);
  }
  std::int64_t Number() {
    std::int64_t value = 0;
    Raw(&value, sizeof(value));
    return value;
  }
  // Of things that take at least `least` bytes each: a length that cannot be is refused before
  // memory is taken for it.
  std::size_t Length(std::size_t least) {
    std::uint32_t value = 0;
    Raw(&value, sizeof(value));
    if (value > (bytes_.size() - at_) / least) ok_ = false;
    return ok_ ? value : 0;
  }
  void Numbers(std::vector<std::int64_t>* values) {
    values->resize(Length(sizeof(std::int64_t)));
    Raw(values->data(), values->size() * sizeof(std::int64_t));
  }
  void Text(std::string* text) {
    text->resize(Length(1));
    Raw(&(*text)[0], text->size());
  }
  bool AtEnd() const { return ok_ && at_ == bytes_.size(); }

 private:
  void Raw(void* target, std::size_t size) {
    if (size > bytes_.size() - at_) ok_ = false;
    if (!ok_ || size == 0) return;
    std::memcpy(target, bytes_.data() + at_, size);
    at_ += size;
  }

  const std::string& bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

bool IsAllToAll(Collective collective) {
  return collective == Collective::kAllToAllV || collective == Collective::kAllToAllVC;
}

// In the agreement, send and receive are one kind: they meet in one cell.
Collective AgreedKind(Collective collective) {
  return collective == Collective::kReceive ? Collective::kSend : collective;
}

}  // namespace

std::string EncodeAgreement(const CollectiveRequest& request) {
  const bool shapes = !IsAllToAll(request.collective);
  std::size_t expected = 16;
  // What two ranks send each other has another name on each side.
  bool named = false;
  for (const CollectiveTensor& tensor : request.tensors) {
    expected += 9 + 8 * tensor.shape.size() + tensor.name.size();
    named = named || (!tensor.name.empty() && !IsPointToPoint(request.collective));
  }
  for (const FusedMember& member : request.members) expected += 12 + member.tag.size();
  Writer writer(expected);
  writer.Byte(static_cast<std::int32_t>(AgreedKind(request.collective)));
  writer.Byte(static_cast<std::int32_t>(IsReducing(request.collective) ? request.reduction
                                                                       : Reduction::kNone));
  const bool rooted =
      request.collective == Collective::kBroadcast || request.collective == Collective::kReduce;
  writer.Number(rooted ? request.root_rank : 0);
  writer.Length(request.tensors.size());
  for (const CollectiveTensor& tensor : request.tensors) {
    writer.Byte(static_cast<std::int32_t>(tensor.type));
    if (shapes) writer.Numbers(tensor.shape);
  }
  writer.Length(request.count_matrices.size());
  for (const auto& matrix : request.count_matrices) writer.Numbers(matrix);
  writer.Numbers(request.absent_entries);
  writer.Length(request.members.size());
  for (const FusedMember& member : request.members) {
    writer.Text(member.tag);
    writer.Number(member.tensors);
  }
  writer.Byte(named);
  if (named) {
    for (const CollectiveTensor& tensor : request.tensors) writer.Text(tensor.name);
  }
  return writer.Take();
}

std::string EncodeOwn(const CollectiveRequest& request) {
  Writer writer(64 + request.node_name.size() + request.tag.size() +
                16 * request.send_counts.size());
  writer.Byte(static_cast<std::int32_t>(request.collective));
  writer.Text(request.node_name.empty() ? request.tag : request.node_name);
  writer.Text(request.tag == request.node_name ? std::string() : request.tag);
  writer.Number(request.peer_rank);
  writer.Number(request.send_receive_tag);
  const bool vectors = request.collective == Collective::kAllToAllV;
  writer.Numbers(vectors ? request.send_counts : std::vector<std::int64_t>());
  writer.Numbers(vectors ? request.receive_counts : std::vector<std::int64_t>());
  writer.Length(IsAllToAll(request.collective) ? request.tensors.size() : 0);
  if (IsAllToAll(request.collective)) {
    for (const CollectiveTensor& tensor : request.tensors) writer.Numbers(tensor.shape);
  }
  return writer.Take();
}

bool Decode(const std::string& agreement, const std::string& own, Fingerprint* fingerprint) {
  Reader own_reader(own);
  fingerprint->collective = static_cast<Collective>(own_reader.Byte());
  own_reader.Text(&fingerprint->node_name);
  own_reader.Text(&fingerprint->tag);
  if (fingerprint->tag.empty()) fingerprint->tag = fingerprint->node_name;
  fingerprint->peer = static_cast<std::int32_t>(own_reader.Number());
  fingerprint->send_receive_tag = own_reader.Number();
  own_reader.Numbers(&fingerprint->send_counts);
  own_reader.Numbers(&fingerprint->receive_counts);
  std::vector<std::vector<std::int64_t>> own_shapes(own_reader.Length(4));
  for (auto& shape : own_shapes) own_reader.Numbers(&shape);
  if (!own_reader.AtEnd()) return false;

  Reader reader(agreement);
  const auto kind = static_cast<Collective>(reader.Byte());
  if (kind != AgreedKind(fingerprint->collective)) return false;
  const bool shapes = !IsAllToAll(kind);
  fingerprint->reduction = static_cast<Reduction>(reader.Byte());
  fingerprint->root = static_cast<std::int32_t>(reader.Number());
  fingerprint->tensors.resize(reader.Length(shapes ? 5 : 1));
  if (!shapes && own_shapes.size() != fingerprint->tensors.size()) return false;
  for (std::size_t i = 0; i < fingerprint->tensors.size(); ++i) {
    Fingerprint::Tensor& tensor = fingerprint->tensors[i];
    tensor.type = static_cast<DataType>(reader.Byte());
    if (shapes) {
      reader.Numbers(&tensor.shape);
    } else {
      tensor.shape = own_shapes[i];
    }
  }
  fingerprint->count_matrices.resize(reader.Length(4));
  for (auto& matrix : fingerprint->count_matrices) reader.Numbers(&matrix);
  reader.Numbers(&fingerprint->absent_entries);
  fingerprint->members.resize(reader.Length(12));
  for (Fingerprint::Member& member : fingerprint->members) {
    reader.Text(&member.tag);
    member.tensors = reader.Number();
  }
  const bool named = reader.Byte() != 0;
  for (Fingerprint::Tensor& tensor : fingerprint->tensors) {
    tensor.name.clear();
    if (named) reader.Text(&tensor.name);
  }
  return reader.AtEnd();
}

std::string Fingerprint::Describe() const {
  constexpr std::size_t kMostTensors = 3;
  std::string text = std::string(CollectiveName(collective)) + " '" + node_name + "'";
  if (collective == Collective::kSend) text += " to rank " + std::to_string(peer);
  if (collective == Collective::kReceive) text += " from rank " + std::to_string(peer);
  if (IsPointToPoint(collective)) text += ", sr_tag " + std::to_string(send_receive_tag) + ",";
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (i == kMostTensors) {
      text += " and " + Count(static_cast<std::int64_t>(tensors.size() - i), "more tensor");
      break;
    }
    text += (i > 0 ? ", " : " ") + DescribeTensor(tensors[i].type, tensors[i].shape);
  }
  if (!members.empty()) {
    constexpr std::size_t kMostMembers = 8;
    text += " (fused: ";
    for (std::size_t i = 0; i < members.size() && i < kMostMembers; ++i) {
      text += (i > 0 ? ", '" : "'") + members[i].tag + "'";
    }
    if (members.size() > kMostMembers) {
      text += " and " + std::to_string(members.size() - kMostMembers) + " more";
    }
    text += ")";
  }
  return text;
}

}  // namespace comm
}  // namespace npu_bridge
