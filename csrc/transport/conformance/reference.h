// What collectives must give, computed element by element with nothing of the transports' code.
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_REFERENCE_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_REFERENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "csrc/common/collective.h"
#include "csrc/common/data_type.h"
#include "csrc/transport/conformance/rank.h"

namespace npu_bridge {
namespace conformance {

// All types that are reduced; all that are moved.
const std::vector<DataType>& ReducibleTypes();
const std::vector<DataType>& AllTypes();
const std::vector<Reduction>& AllReductions();

// Elements of any bits that mean something: for floats also infinities, NaN, denormals and zeros of
// both signs. An element depends on the type, the seed and its place only: elements [begin, begin +
// count) of an endless buffer.
Bytes MakeInput(DataType type, std::uint64_t count, std::uint64_t seed, std::uint64_t begin = 0);

// inputs[0] o inputs[1] o ..., all of `count` elements.
Bytes ReferenceReduce(DataType type, Reduction reduction, const std::vector<Bytes>& inputs,
                      std::uint64_t count);

// Empty when the bytes are those expected, else where they first differ. NaN equals NaN when
// `type` is a float type and `any_nan` is set; all else must agree in every bit.
std::string Difference(DataType type, const void* found, const Bytes& expected, bool any_nan);

// Slow and plain; the tests of reduction/ use them as well.
double FloatValue(DataType type, const void* element);
std::uint16_t RoundToHalf(DataType type, float value);

}  // namespace conformance
}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_TRANSPORT_CONFORMANCE_REFERENCE_H_
