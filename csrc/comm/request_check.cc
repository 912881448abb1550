#include "csrc/comm/request_check.h"

#include <algorithm>
#include <limits>
#include <string>

#include "csrc/comm/messages.h"

namespace npu_bridge {
namespace comm {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// False when the result does not fit 64 bits. Operands are not negative.
bool Add(std::int64_t a, std::int64_t b, std::int64_t* sum) {
  return !__builtin_add_overflow(a, b, sum);
}
bool Multiply(std::int64_t a, std::int64_t b, std::int64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

class Checker {
 public:
  Checker(const CollectiveRequest& request, const Group& group)
      : request_(request), group_(group), size_(group.size()) {}

  Status Check() const {
    Status status = CheckAttributes();
    if (status.ok()) status = CheckTensors();
    if (status.ok() && request_.collective == Collective::kAllToAllV) status = CheckVectors();
    if (status.ok() && request_.collective == Collective::kAllToAllVC) status = CheckMatrices();
    return status;
  }

 private:
  // `found` continues "rank 2 passed ".
  Status Refuse(const std::string& found) const {
    return InvalidArgument(DescribeOp(request_) + ": " + DescribeRank(group_, group_.rank) +
                           " passed " + found);
  }

  std::string GroupSize() const { return "group " + group_.name + " has " + Count(size_, "rank"); }

  Status CheckRange(const char* attribute, std::int64_t value) const {
    if (value >= 0 && value < size_) return Status::Ok();
    return Refuse(std::string(attribute) + " " + std::to_string(value) + ", but " + GroupSize() +
                  ": it must lie in [0, " + std::to_string(size_) + ").");
  }

  Status CheckAttributes() const {
    switch (request_.collective) {
      case Collective::kAllReduce:
      case Collective::kReduce:
      case Collective::kReduceScatter:
        if (request_.reduction < Reduction::kSum || request_.reduction > Reduction::kMin) {
          return Refuse("no valid reduction. Allowed are min, max, prod and sum.");
        }
        break;
      default:
        break;
    }
    switch (request_.collective) {
      case Collective::kAllGather:
      case Collective::kReduceScatter:
        if (request_.rank_size != size_) {
          return Refuse("rank_size " + std::to_string(request_.rank_size) + ", but " + GroupSize() +
                        ". rank_size must be the number of ranks in the group.");
        }
        return Status::Ok();
      case Collective::kBroadcast:
      case Collective::kReduce:
        return CheckRange("root_rank", request_.root_rank);
      case Collective::kSend:
        return CheckRange("dest_rank", request_.peer_rank);
      case Collective::kReceive:
        return CheckRange("src_rank", request_.peer_rank);
      case Collective::kAllToAllVC:
        if (request_.claimed_rank != group_.rank) {
          return Refuse("rank " + std::to_string(request_.claimed_rank) + ", but it is rank " +
                        std::to_string(group_.rank) + " of the " + std::to_string(size_) +
                        " ranks of the group.");
        }
        return Status::Ok();
      case Collective::kAllReduce:
      case Collective::kAllToAllV:
        return Status::Ok();
    }
    return Refuse("an unknown kind of op (" +
                  std::to_string(static_cast<std::int32_t>(request_.collective)) + ").");
  }

  bool TypeAllowed(DataType type) const {
    if (DataTypeSize(type) == 0) return false;
    // A broadcast only moves bytes; all other ops take the types of the device library.
    return request_.collective == Collective::kBroadcast || IsReducible(type);
  }

  Status CheckTensors() const {
    const std::size_t tensors = request_.tensors.size();
    const bool list = request_.collective == Collective::kBroadcast;
    if (tensors == 0 && !list) return Refuse("no tensor.");
    if (tensors > 1 &&
        (IsPointToPoint(request_.collective) || request_.collective == Collective::kAllToAllV)) {
      return Refuse(std::to_string(tensors) + " tensors, but this op takes one.");
    }
    for (std::size_t i = 0; i < tensors; ++i) {
      Status status = CheckTensor(request_.tensors[i], i);
      if (!status.ok()) return status;
    }
    return Status::Ok();
  }

  // " (tensor 3 of 5)" where there are several.
  std::string Which(std::size_t index) const {
    if (request_.tensors.size() <= 1) return "";
    return " (tensor " + std::to_string(index) + " of " + std::to_string(request_.tensors.size()) +
           ")";
  }

  Status CheckTensor(const CollectiveTensor& tensor, std::size_t index) const {
    const std::string described = DescribeTensor(tensor.type, tensor.shape) + Which(index);
    if (!TypeAllowed(tensor.type)) {
      return Refuse(
          described + ", but the op does not take " +
          (tensor.type == DataType::kInvalid ? std::string("elements of that type")
                                             : DataTypeName(tensor.type)) +
          ". Allowed are the numeric types" +
          (request_.collective == Collective::kBroadcast
               ? ", bool and complex."
               : " int8 to int64, uint8 to uint64, float16, bfloat16, float32, float64."));
    }
    std::int64_t count = 1;
    bool fits = true;
    bool empty = false;
    for (std::int64_t extent : tensor.shape) {
      if (extent < 0) {
        return Refuse(described + ", a shape with a negative or unknown dimension.");
      }
      if (extent == 0) empty = true;
      fits = fits && Multiply(count, extent, &count);
    }
    if (empty) {
      count = 0;
      fits = true;
    }
    std::int64_t bytes = 0;
    const auto element = static_cast<std::int64_t>(DataTypeSize(tensor.type));
    if (!fits || !Multiply(count, element, &bytes)) {
      return Refuse(described + ", whose size does not fit 64 bits.");
    }
    if (count != tensor.count) {
      return Refuse(described + " with " + Count(tensor.count, "element") +
                    ", but that shape has " + std::to_string(count) + ".");
    }
    if (tensor.input == nullptr && count > 0 && request_.collective != Collective::kReceive) {
      return Refuse(described + " without its data.");
    }
    return CheckFirstDimension(tensor, described, bytes);
  }

  Status CheckFirstDimension(const CollectiveTensor& tensor, const std::string& described,
                             std::int64_t bytes) const {
    const bool gathers = request_.collective == Collective::kAllGather;
    const bool scatters = request_.collective == Collective::kReduceScatter;
    if (!gathers && !scatters) return Status::Ok();
    if (tensor.shape.empty()) {
      return Refuse(described +
                    ", a scalar. The op needs at least one dimension: reshape it to "
                    "[1] first.");
    }
    std::int64_t result_bytes = 0;
    if (gathers && !Multiply(bytes, size_, &result_bytes)) {
      return Refuse(described + ", and the result of " + Count(size_, "rank") +
                    " does not fit 64 bits.");
    }
    if (scatters && tensor.shape[0] % size_ != 0) {
      return Refuse(described + ", but dimension 0 (" + std::to_string(tensor.shape[0]) +
                    ") must be divisible by rank_size " + std::to_string(size_) + ".");
    }
    return Status::Ok();
  }

  Status CheckVector(const char* name, const std::vector<std::int64_t>& vector) const {
    if (vector.size() != static_cast<std::size_t>(size_)) {
      return Refuse(std::string(name) + " of length " + std::to_string(vector.size()) + ", but " +
                    GroupSize() + ": it must have one entry a rank.");
    }
    for (std::size_t i = 0; i < vector.size(); ++i) {
      if (vector[i] < 0) {
        return Refuse(std::string(name) + "[" + std::to_string(i) +
                      "] = " + std::to_string(vector[i]) +
                      ". Counts and displacements must not be "
                      "negative.");
      }
    }
    return Status::Ok();
  }

  Status CheckVectors() const {
    const CollectiveTensor& tensor = request_.tensors[0];
    Status status = CheckVector("send_counts", request_.send_counts);
    if (status.ok()) status = CheckVector("send_displacements", request_.send_displacements);
    if (status.ok()) status = CheckVector("recv_counts", request_.receive_counts);
    if (status.ok()) status = CheckVector("recv_displacements", request_.receive_displacements);
    if (!status.ok()) return status;
    for (std::size_t i = 0; i < request_.send_counts.size(); ++i) {
      const std::string place = "[" + std::to_string(i) + "] = ";
      std::int64_t end = 0;
      if (!Add(request_.send_displacements[i], request_.send_counts[i], &end) ||
          end > tensor.count) {
        return Refuse("send_displacements" + place +
                      std::to_string(request_.send_displacements[i]) + " and send_counts" + place +
                      std::to_string(request_.send_counts[i]) +
                      ", which reach past the end of "
                      "send_data (" +
                      Count(tensor.count, "element") + ").");
      }
      if (!Add(request_.receive_displacements[i], request_.receive_counts[i], &end) ||
          end > kMost / static_cast<std::int64_t>(DataTypeSize(tensor.type))) {
        return Refuse("recv_displacements" + place +
                      std::to_string(request_.receive_displacements[i]) + " and recv_counts" +
                      place + std::to_string(request_.receive_counts[i]) +
                      ", whose end in bytes does not fit 64 bits.");
      }
    }
    return Status::Ok();
  }

  Status CheckMatrices() const {
    for (const auto& shape : request_.count_matrix_shapes) {
      if (shape.size() != 2 || shape[0] != size_ || shape[1] != size_) {
        return Refuse("send_count_matrix of shape " + DescribeShape(shape) + ", but " +
                      GroupSize() + ": it must be [" + std::to_string(size_) + "," +
                      std::to_string(size_) + "].");
      }
    }
    if (request_.count_matrices.size() != request_.tensors.size()) {
      return Refuse(std::to_string(request_.count_matrices.size()) +
                    " matrices send_count_matrix for " +
                    Count(static_cast<std::int64_t>(request_.tensors.size()), "tensor") + ".");
    }
    for (std::size_t i = 0; i < request_.tensors.size(); ++i) {
      Status status = CheckMatrix(request_.count_matrices[i], request_.tensors[i], i);
      if (!status.ok()) return status;
    }
    return Status::Ok();
  }

  Status CheckMatrix(const std::vector<std::int64_t>& matrix, const CollectiveTensor& tensor,
                     std::size_t index) const {
    const auto n = static_cast<std::size_t>(size_);
    if (matrix.size() != n * n) {
      return Refuse("send_count_matrix with " +
                    Count(static_cast<std::int64_t>(matrix.size()), "element") + Which(index) +
                    ", but " + GroupSize() + ": it must be [" + std::to_string(n) + "," +
                    std::to_string(n) + "].");
    }
    for (std::size_t i = 0; i < matrix.size(); ++i) {
      if (matrix[i] < 0) {
        return Refuse("send_count_matrix[" + std::to_string(i / n) + "," + std::to_string(i % n) +
                      "] = " + std::to_string(matrix[i]) + Which(index) +
                      ". Counts must not be negative.");
      }
    }
    // Every row and column is checked, also those of other ranks: all ranks then refuse alike.
    const std::int64_t most = kMost / static_cast<std::int64_t>(DataTypeSize(tensor.type));
    for (std::size_t line = 0; line < n; ++line) {
      std::int64_t row = 0;
      std::int64_t column = 0;
      for (std::size_t i = 0; i < n; ++i) {
        if (!Add(row, matrix[line * n + i], &row) || row > most) {
          return Refuse("a send_count_matrix whose row " + std::to_string(line) + Which(index) +
                        " sums to more than 64 bits hold.");
        }
        if (!Add(column, matrix[i * n + line], &column) || column > most) {
          return Refuse("a send_count_matrix whose column " + std::to_string(line) + Which(index) +
                        " sums to more than 64 bits hold.");
        }
      }
      if (line == static_cast<std::size_t>(group_.rank) && row > tensor.count) {
        return Refuse("send_data with " + Count(tensor.count, "element") + Which(index) +
                      ", but row " + std::to_string(line) + " of send_count_matrix sums to " +
                      std::to_string(row) + ".");
      }
    }
    return Status::Ok();
  }

  const CollectiveRequest& request_;
  const Group& group_;
  const std::int32_t size_;
};

}  // namespace

Status CheckRequest(const CollectiveRequest& request, const Group& group) {
  return Checker(request, group).Check();
}

AllToAllCounts CountsOf(const CollectiveRequest& request, const Group& group, std::size_t index) {
  AllToAllCounts counts;
  if (request.collective == Collective::kAllToAllV) {
    counts.send_counts = request.send_counts;
    counts.send_displacements = request.send_displacements;
    counts.receive_counts = request.receive_counts;
    counts.receive_displacements = request.receive_displacements;
    return counts;
  }
  const std::vector<std::int64_t>& matrix = request.count_matrices[index];
  const auto n = static_cast<std::size_t>(group.size());
  const auto own = static_cast<std::size_t>(group.rank);
  std::int64_t sent = 0;
  std::int64_t received = 0;
  for (std::size_t i = 0; i < n; ++i) {
    counts.send_counts.push_back(matrix[own * n + i]);
    counts.send_displacements.push_back(sent);
    sent += matrix[own * n + i];
    counts.receive_counts.push_back(matrix[i * n + own]);
    counts.receive_displacements.push_back(received);
    received += matrix[i * n + own];
  }
  return counts;
}

std::int64_t ResultCount(const CollectiveRequest& request, const Group& group, std::size_t index) {
  const CollectiveTensor& tensor = request.tensors[index];
  switch (request.collective) {
    case Collective::kAllGather:
      return tensor.count * group.size();
    case Collective::kReduceScatter:
      return tensor.count / group.size();
    case Collective::kAllToAllV:
    case Collective::kAllToAllVC: {
      const AllToAllCounts counts = CountsOf(request, group, index);
      std::int64_t end = 0;
      for (std::size_t i = 0; i < counts.receive_counts.size(); ++i) {
        end = std::max(end, counts.receive_displacements[i] + counts.receive_counts[i]);
      }
      return end;
    }
    case Collective::kSend:
      return 0;
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kReceive:
      break;
  }
  return tensor.count;
}

}  // namespace comm
}  // namespace npu_bridge
