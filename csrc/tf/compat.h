// Every difference between the TensorFlow versions that this project is built for (1.15, 2.6, 2.15,
// 2.21), and nothing else: no other file looks at a version.
#ifndef NPU_BRIDGE_CSRC_TF_COMPAT_H_
#define NPU_BRIDGE_CSRC_TF_COMPAT_H_

#include <cstdint>
#include <string>

#include "csrc/common/status.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/core/status.h"
#include "tensorflow/core/public/version.h"

// Not TF_MAJOR_VERSION: the headers of 2.21 do not define it. 134: 1.15, 808: 2.6, 1645: 2.15.
#if TF_GRAPH_DEF_VERSION >= 1645
#define NPU_BRIDGE_TF_HAS_ABSL_STATUS 1
#else
#define NPU_BRIDGE_TF_HAS_ABSL_STATUS 0
#endif

namespace npu_bridge {

#if NPU_BRIDGE_TF_HAS_ABSL_STATUS
using TfStatus = absl::Status;
// The type of integer attributes and dimensions.
using TfInt64 = std::int64_t;
inline TfStatus MakeTfStatus(StatusCode code, const std::string& message) {
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}
inline std::string MessageOf(const TfStatus& status) { return std::string(status.message()); }
#else
using TfStatus = tensorflow::Status;
using TfInt64 = tensorflow::int64;
inline TfStatus MakeTfStatus(StatusCode code, const std::string& message) {
  return tensorflow::Status(static_cast<tensorflow::error::Code>(code), message);
}
inline std::string MessageOf(const TfStatus& status) { return status.error_message(); }
#endif

inline TfStatus TfOk() { return TfStatus(); }

// Codes have equal numbers on both sides.
inline TfStatus ToTfStatus(const Status& status) {
  return status.ok() ? TfOk() : MakeTfStatus(status.code(), status.message());
}

// Whether an optimization pass sees the function that TensorFlow wraps around one eager op (2.15
// and later run eager ops so; the earlier ones run them without passes). `Options` is
// tensorflow::GraphOptimizationPassOptions; a template, so that not all who need this header pay
// for that one.
// The function whose body a pass works on, as its caller knows it; empty for a session's graph, and
// where TensorFlow does not say (before 2.15).
#if NPU_BRIDGE_TF_HAS_ABSL_STATUS
template <typename Options>
std::string FunctionNameOf(const Options& options) {
  return options.function_def != nullptr ? options.function_def->signature().name() : "";
}
#else
template <typename Options>
std::string FunctionNameOf(const Options&) {
  return "";
}
#endif

#if NPU_BRIDGE_TF_HAS_ABSL_STATUS
template <typename Options>
bool IsEagerOpGraph(const Options& options) {
  static const std::string* const prefix = new std::string("__wrapped__");
  return options.function_def != nullptr &&
         options.function_def->signature().name().compare(0, prefix->size(), *prefix) == 0;
}
#else
template <typename Options>
bool IsEagerOpGraph(const Options&) {
  return false;
}
#endif

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TF_COMPAT_H_
