// Element-wise reduction of N buffers, in the order given.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_REDUCTION_REDUCTION_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_REDUCTION_REDUCTION_H_

#include <cstdint>

#include "csrc/common/collective.h"
#include "csrc/common/data_type.h"

namespace npu_bridge {

// output[i] = inputs[0][i] o inputs[1][i] o ... o inputs[input_count - 1][i], from left to right.
//
// The bits of an element depend on that element's inputs only: not on its place, the length, the
// alignment, the processor or the calling thread's floating-point mode. float16 and bfloat16 are
// accumulated in float32 and rounded once, to nearest even. Integers wrap. min and max give NaN
// where any input is NaN. One input is copied unchanged.
//
// Buffers are aligned to the element; `output` overlaps no input. `streaming`: the output is too
// large for the caches (see kStreamingBytes). False when the type or reduction is not defined.
bool Reduce(DataType type, Reduction reduction, const void* const* inputs, std::int32_t input_count,
            std::uint64_t count, void* output, bool streaming);

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_REDUCTION_REDUCTION_H_
