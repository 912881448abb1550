#include "csrc/transport/reduction/reduction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "csrc/common/memory_copy.h"
#include "csrc/common/processor.h"
#include "csrc/transport/conformance/reference.h"
#include "csrc/transport/reduction/half_precision.h"

namespace npu_bridge {
namespace {

using conformance::Bytes;
using conformance::Difference;

std::vector<Bytes> MakeInputs(DataType type, int count, std::uint64_t elements) {
  std::vector<Bytes> inputs;
  for (int i = 0; i < count; ++i) {
    inputs.push_back(conformance::MakeInput(type, elements, static_cast<std::uint64_t>(i) + 1));
  }
  return inputs;
}

Bytes RunReduce(DataType type, Reduction reduction, const std::vector<Bytes>& inputs,
                std::uint64_t begin, std::uint64_t count, bool streaming = false) {
  const std::size_t element = DataTypeSize(type);
  std::vector<const void*> pointers;
  for (const Bytes& input : inputs) pointers.push_back(input.data() + begin * element);
  Bytes output(count * element);
  EXPECT_TRUE(Reduce(type, reduction, pointers.data(), static_cast<std::int32_t>(inputs.size()),
                     count, output.data(), streaming));
  return output;
}

TEST(ReductionTest, EveryTypeAndReductionGivesTheReference) {
  for (const DataType type : conformance::ReducibleTypes()) {
    for (const Reduction reduction : conformance::AllReductions()) {
      for (const int ranks : {1, 2, 3, 8}) {
        for (const std::uint64_t count : {0, 1, 7, 33, 2047, 2048, 2049, 20011}) {
          const std::vector<Bytes> inputs = MakeInputs(type, ranks, count);
          const Bytes expected = conformance::ReferenceReduce(type, reduction, inputs, count);
          for (const bool streaming : {false, true}) {
            const Bytes found = RunReduce(type, reduction, inputs, 0, count, streaming);
            EXPECT_EQ("", Difference(type, found.data(), expected, /*any_nan=*/true))
                << DataTypeName(type) << " " << ReductionName(reduction) << " of " << ranks << " x "
                << count;
          }
        }
      }
    }
  }
}

// Whatever slice an element lies in, its bits are the same.
TEST(ReductionTest, BitsDoNotDependOnTheSlice) {
  constexpr std::uint64_t kCount = 6000;
  for (const DataType type : conformance::ReducibleTypes()) {
    const std::size_t element = DataTypeSize(type);
    for (const Reduction reduction : conformance::AllReductions()) {
      const std::vector<Bytes> inputs = MakeInputs(type, 3, kCount);
      const Bytes whole = RunReduce(type, reduction, inputs, 0, kCount);
      for (std::uint64_t begin = 1, count = 1; begin + count < kCount; begin += 97, count += 61) {
        const Bytes slice = RunReduce(type, reduction, inputs, begin, count);
        const Bytes expected(
            whole.begin() + static_cast<std::ptrdiff_t>(begin * element),
            whole.begin() + static_cast<std::ptrdiff_t>((begin + count) * element));
        EXPECT_EQ("", Difference(type, slice.data(), expected, /*any_nan=*/true))
            << DataTypeName(type) << " " << ReductionName(reduction) << " from " << begin;
      }
    }
  }
}

TEST(ReductionTest, EveryFloat16WidensAndNarrowsToItself) {
  ScopedFloatEnvironment environment;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const double expected = conformance::FloatValue(DataType::kFloat16, &half);
    const float widened = WidenFloat16(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(widened)) << bits;
      ASSERT_EQ(0x7c00, NarrowFloat16(widened) & 0x7c00) << bits;
      ASSERT_NE(0, NarrowFloat16(widened) & 0x3ff) << bits;
      continue;
    }
    ASSERT_EQ(expected, static_cast<double>(widened)) << bits;
    ASSERT_EQ(std::signbit(expected), std::signbit(widened)) << bits;
    ASSERT_EQ(half, NarrowFloat16(widened)) << bits;
  }
}

// Every kind of value: all exponents, with mantissas around the points where rounding changes.
TEST(ReductionTest, NarrowingRoundsToNearestEven) {
  ScopedFloatEnvironment environment;
  std::uint64_t tried = 0;
  for (std::uint32_t top = 0; top < 0x10000; top += 1) {
    for (const std::uint32_t low : {0x0u, 0x1u, 0xfffu, 0x1000u, 0x1001u, 0x2000u, 0x3000u, 0x7fffu,
                                    0x8000u, 0x8001u, 0xf000u, 0xffffu}) {
      const float value = FloatFromBits((top << 16) | low);
      if (std::isnan(value)) {
        const std::uint16_t half = NarrowFloat16(value);
        const std::uint16_t brain = NarrowBfloat16(value);
        ASSERT_TRUE(std::isnan(conformance::FloatValue(DataType::kFloat16, &half)));
        ASSERT_TRUE(std::isnan(conformance::FloatValue(DataType::kBfloat16, &brain)));
        continue;
      }
      ASSERT_EQ(conformance::RoundToHalf(DataType::kFloat16, value), NarrowFloat16(value)) << value;
      ASSERT_EQ(conformance::RoundToHalf(DataType::kBfloat16, value), NarrowBfloat16(value))
          << value;
      ++tried;
    }
  }
  EXPECT_GT(tried, 700000u);
}

TEST(ReductionTest, NanIsKeptWhereverItStands) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Reduction reduction : {Reduction::kMin, Reduction::kMax}) {
    for (int place = 0; place < 3; ++place) {
      std::vector<float> rows[3];
      for (int r = 0; r < 3; ++r) rows[r].assign(21, r == place ? nan : static_cast<float>(r));
      const void* inputs[3] = {rows[0].data(), rows[1].data(), rows[2].data()};
      std::vector<float> output(21);
      ASSERT_TRUE(Reduce(DataType::kFloat32, reduction, inputs, 3, 21, output.data(), false));
      for (const float value : output) EXPECT_TRUE(std::isnan(value)) << "place " << place;
    }
  }
}

// float16: 2048 + 1 + 1 is 2050 when rounded once, 2048 when rounded after each addition.
TEST(ReductionTest, HalfSumsAreRoundedOnce) {
  const std::uint16_t big = 0x6800;
  const std::uint16_t one = 0x3c00;
  const void* inputs[3] = {&big, &one, &one};
  std::uint16_t sum = 0;
  ASSERT_TRUE(Reduce(DataType::kFloat16, Reduction::kSum, inputs, 3, 1, &sum, false));
  EXPECT_EQ(2050.0, conformance::FloatValue(DataType::kFloat16, &sum));
}

#if defined(__x86_64__)
// TensorFlow's threads flush denormals to zero; a sum must not depend on the thread.
TEST(ReductionTest, DenormalsSurviveAThreadThatFlushesThem) {
  const unsigned int before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  const float tiny = 1e-40f;
  const void* inputs[2] = {&tiny, &tiny};
  float sum = 0;
  const bool reduced = Reduce(DataType::kFloat32, Reduction::kSum, inputs, 2, 1, &sum, false);
  const bool flag_is_back = _mm_getcsr() == (before | 0x8040);
  _mm_setcsr(before);
  EXPECT_TRUE(reduced);
  EXPECT_TRUE(flag_is_back);
  EXPECT_EQ(2 * BitsOfFloat(tiny), BitsOfFloat(sum));
}
#endif

TEST(ReductionTest, UndefinedPairsAreRefused) {
  char byte = 0;
  const void* inputs[2] = {&byte, &byte};
  EXPECT_FALSE(Reduce(DataType::kBool, Reduction::kSum, inputs, 2, 1, &byte, false));
  EXPECT_FALSE(Reduce(DataType::kInt8, Reduction::kNone, inputs, 2, 1, &byte, false));
  EXPECT_FALSE(Reduce(DataType::kInt8, Reduction::kSum, inputs, 0, 1, &byte, false));
}

TEST(StreamingCopyTest, CopiesEveryLengthAndAlignment) {
  std::vector<char> source(1000);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<char>(i * 7 + 1);
  for (std::size_t from = 0; from < 5; ++from) {
    for (std::size_t to = 0; to < 70; ++to) {
      for (std::size_t bytes = 0; bytes < 300; bytes += 13) {
        std::vector<char> target(1000, 0);
        StreamingCopy(target.data() + to, source.data() + from, bytes);
        std::vector<char> expected(1000, 0);
        std::copy_n(source.data() + from, bytes, expected.data() + to);
        ASSERT_EQ(expected, target) << from << " " << to << " " << bytes;
      }
    }
  }
}

}  // namespace
}  // namespace npu_bridge
