#include "csrc/tf/ops/shape_functions.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace npu_bridge {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

TfStatus Refuse(const std::string& message) {
  return MakeTfStatus(StatusCode::kInvalidArgument, message);
}

TfStatus RankSize(InferenceContext* c, TfInt64* rank_size) {
  TF_RETURN_IF_ERROR(c->GetAttr("rank_size", rank_size));
  if (*rank_size < 1 || *rank_size > kMaxRankSize) {
    return Refuse("rank_size is " + std::to_string(*rank_size) +
                  ", it must be the number of ranks in the group, 1 to " +
                  std::to_string(kMaxRankSize) + ".");
  }
  return TfOk();
}

// An input that is known to have a dimension 0.
TfStatus PartitionedInput(InferenceContext* c, int index, const char* how, ShapeHandle* input) {
  *input = c->input(index);
  if (c->RankKnown(*input) && c->Rank(*input) < 1) {
    return Refuse(std::string("the input is a scalar, but ranks' parts are ") + how +
                  " along dimension 0. Give it one, for instance with tf.reshape(x, [1]).");
  }
  return TfOk();
}

// The values of int64 input `index` where it is a constant.
bool ConstantInput(InferenceContext* c, int index, std::vector<std::int64_t>* values) {
  const tensorflow::Tensor* tensor = c->input_tensor(index);
  if (tensor == nullptr || tensor->dtype() != tensorflow::DT_INT64) return false;
  values->resize(static_cast<std::size_t>(tensor->NumElements()));
  if (!values->empty()) {
    std::memcpy(values->data(), tensor->tensor_data().data(),
                values->size() * sizeof(std::int64_t));
  }
  return true;
}

// False when the sum is no length.
bool AddLengths(std::int64_t a, std::int64_t b, std::int64_t* sum) {
  if (a < 0 || b < 0 || a > std::numeric_limits<std::int64_t>::max() - b) return false;
  *sum = a + b;
  return true;
}

bool ReceivedLength(InferenceContext* c, std::int64_t* length) {
  std::vector<std::int64_t> counts;
  std::vector<std::int64_t> displacements;
  if (!ConstantInput(c, 3, &counts) || !ConstantInput(c, 4, &displacements) ||
      counts.size() != displacements.size()) {
    return false;
  }
  *length = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::int64_t end = 0;
    if (!AddLengths(counts[i], displacements[i], &end)) return false;
    *length = std::max(*length, end);
  }
  return true;
}

bool ColumnSum(InferenceContext* c, TfInt64 rank, std::int64_t* length) {
  std::vector<std::int64_t> matrix;
  if (!ConstantInput(c, 1, &matrix)) return false;
  const tensorflow::TensorShape& shape = c->input_tensor(1)->shape();
  if (shape.dims() != 2 || shape.dim_size(0) != shape.dim_size(1) || rank < 0 ||
      rank >= shape.dim_size(1)) {
    return false;
  }
  const std::size_t size = static_cast<std::size_t>(shape.dim_size(1));
  *length = 0;
  for (std::size_t row = 0; row < size; ++row) {
    const std::int64_t count = matrix[row * size + static_cast<std::size_t>(rank)];
    if (!AddLengths(*length, count, length)) return false;
  }
  return true;
}

TfStatus GatheredShape(InferenceContext* c, int index, TfInt64 rank_size) {
  ShapeHandle input;
  TF_RETURN_IF_ERROR(PartitionedInput(c, index, "put together", &input));
  if (!c->RankKnown(input)) {
    c->set_output(index, c->UnknownShape());
    return TfOk();
  }
  const DimensionHandle part = c->Dim(input, 0);
  // TensorFlow 1.15's Multiply wraps.
  if (c->ValueKnown(part) &&
      c->Value(part) > std::numeric_limits<std::int64_t>::max() / rank_size) {
    return Refuse("dimension 0 of the result, " + std::to_string(c->Value(part)) +
                  " times rank_size " + std::to_string(rank_size) + ", does not fit 64 bits.");
  }
  DimensionHandle total;
  TF_RETURN_IF_ERROR(c->Multiply(part, rank_size, &total));
  ShapeHandle output;
  TF_RETURN_IF_ERROR(c->ReplaceDim(input, 0, total, &output));
  c->set_output(index, output);
  return TfOk();
}

TfStatus ScatteredShape(InferenceContext* c, int index, TfInt64 rank_size) {
  ShapeHandle input;
  TF_RETURN_IF_ERROR(PartitionedInput(c, index, "cut", &input));
  if (!c->RankKnown(input)) {
    c->set_output(index, c->UnknownShape());
    return TfOk();
  }
  const DimensionHandle all = c->Dim(input, 0);
  DimensionHandle part = c->UnknownDim();
  if (c->ValueKnown(all)) {
    if (c->Value(all) % rank_size != 0) {
      return Refuse("dimension 0 of the input is " + std::to_string(c->Value(all)) +
                    ", which rank_size " + std::to_string(rank_size) +
                    " does not divide. Pad the input or change rank_size.");
    }
    part = c->MakeDim(c->Value(all) / rank_size);
  }
  ShapeHandle output;
  TF_RETURN_IF_ERROR(c->ReplaceDim(input, 0, part, &output));
  c->set_output(index, output);
  return TfOk();
}

}  // namespace

TfStatus SameShapes(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->input(i));
  return TfOk();
}

TfStatus AllGatherShape(InferenceContext* c) {
  TfInt64 rank_size = 0;
  TF_RETURN_IF_ERROR(RankSize(c, &rank_size));
  for (int i = 0; i < c->num_outputs(); ++i) TF_RETURN_IF_ERROR(GatheredShape(c, i, rank_size));
  return TfOk();
}

TfStatus ReduceScatterShape(InferenceContext* c) {
  TfInt64 rank_size = 0;
  TF_RETURN_IF_ERROR(RankSize(c, &rank_size));
  for (int i = 0; i < c->num_outputs(); ++i) TF_RETURN_IF_ERROR(ScatteredShape(c, i, rank_size));
  return TfOk();
}

TfStatus AllToAllVShape(InferenceContext* c) {
  std::int64_t length = 0;
  const bool known = ReceivedLength(c, &length);
  c->set_output(0, c->Vector(known ? c->MakeDim(length) : c->UnknownDim()));
  return TfOk();
}

TfStatus AllToAllVCShape(InferenceContext* c) {
  TfInt64 rank = 0;
  TF_RETURN_IF_ERROR(c->GetAttr("rank", &rank));
  std::int64_t length = 0;
  const bool known = ColumnSum(c, rank, &length);
  c->set_output(0, c->Vector(known ? c->MakeDim(length) : c->UnknownDim()));
  return TfOk();
}

TfStatus ShapeFromAttribute(InferenceContext* c) {
  tensorflow::PartialTensorShape shape;
  TF_RETURN_IF_ERROR(c->GetAttr("shape", &shape));
  ShapeHandle output;
  TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shape, &output));
  c->set_output(0, output);
  return TfOk();
}

TfStatus UnknownVectors(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Vector(c->UnknownDim()));
  return TfOk();
}

}  // namespace npu_bridge
