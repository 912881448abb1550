#include "csrc/common/memory_copy.h"

#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace npu_bridge {

void StreamingCopy(void* destination, const void* source, std::size_t bytes) {
#if defined(__x86_64__)
  constexpr std::size_t kLine = 64;
  char* to = static_cast<char*>(destination);
  const char* from = static_cast<const char*>(source);
  std::size_t head = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  if (head > bytes) head = bytes;
  if (head > 0) {
    std::memcpy(to, from, head);
    to += head;
    from += head;
    bytes -= head;
  }
  for (; bytes >= kLine; bytes -= kLine, to += kLine, from += kLine) {
    const __m128i* in = reinterpret_cast<const __m128i*>(from);
    __m128i* out = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(in);
    const __m128i b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2);
    const __m128i d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  if (bytes > 0) std::memcpy(to, from, bytes);
  // Streaming stores are not ordered by a release store.
  _mm_sfence();
#else
  if (bytes > 0) std::memcpy(destination, source, bytes);
#endif
}

}  // namespace npu_bridge
