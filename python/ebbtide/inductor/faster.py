"""Loops of Inductor's C++ kernels that take one number after the other, by several at once: the same bits.

Two of its idioms are slow on CPUs: random numbers, and tensors of bools, whose vectors are loops over single bytes. Compilers do not mend it: Inductor forbids
GCC to vectorize loops.
"""

from __future__ import annotations

import re

# Philox 4x32 with 10 rounds, as Inductor's normalized_rand_cpu has it, with a lane for each counter. A lane has 64 bits, of which products read the lower half,
# so that what is left in the upper half does no harm until the end.
_RANDOM = r"""
#if defined(__AVX512F__)
#include <immintrin.h>
typedef uint64_t EbbtideLanes __attribute__((vector_size(64)));
static inline EbbtideLanes ebbtide_times(EbbtideLanes a, uint32_t b) { return (EbbtideLanes)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(b)); }
#elif defined(__AVX2__)
#include <immintrin.h>
typedef uint64_t EbbtideLanes __attribute__((vector_size(32)));
static inline EbbtideLanes ebbtide_times(EbbtideLanes a, uint32_t b) { return (EbbtideLanes)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b)); }
#endif
template <int N, typename T>
static inline void ebbtide_rand(uint32_t seed, const T* offset, float* result) {
  int first = 0;
#if defined(__AVX512F__) || defined(__AVX2__)
  constexpr int lanes = sizeof(EbbtideLanes) / sizeof(uint64_t);
  typedef T Given __attribute__((vector_size(lanes * sizeof(T))));
  typedef int32_t Words __attribute__((vector_size(lanes * sizeof(int32_t))));
  typedef float Floats __attribute__((vector_size(lanes * sizeof(float))));
  for (; first + lanes <= N; first += lanes) {
    Given given;
    __builtin_memcpy(&given, offset + first, sizeof(given));
    EbbtideLanes c0 = __builtin_convertvector(given, EbbtideLanes), c1{}, c2{}, c3{};
    uint32_t k0 = seed, k1 = 0;
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const EbbtideLanes a = ebbtide_times(c0, 0xD2511F53u), b = ebbtide_times(c2, 0xCD9E8D57u);
      c0 = (b >> 32) ^ c1 ^ k0;
      c1 = b;
      c2 = (a >> 32) ^ c3 ^ k1;
      c3 = a;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    const Floats made = __builtin_convertvector(__builtin_convertvector(c0 & 0x7FFFFFFF, Words), Floats) * 4.6566127342e-10f;
    __builtin_memcpy(result + first, &made, sizeof(made));
  }
#endif
  for (; first < N; ++first) result[first] = normalized_rand_cpu(seed, offset[first]);
}
"""

# A mask is a vector whose numbers have all bits set, or none; in memory, a byte of 1 or 0 each.
_BOOLS = r"""
#include <type_traits>
template <typename Mask>
struct EbbtideMask : std::false_type {};
template <typename T, int N>
struct EbbtideMask<at::vec::VecMask<T, N>> : std::bool_constant<(sizeof(T) > 1 && (N & (N - 1)) == 0)> {
  static constexpr int size = at::vec::VecMask<T, N>::size();
  typedef std::conditional_t<sizeof(T) == 2, int16_t, std::conditional_t<sizeof(T) == 4, int32_t, int64_t>> Word;
  typedef Word Words __attribute__((vector_size(size * sizeof(T))));
  typedef int8_t Bytes __attribute__((vector_size(size)));
};
template <typename Value>
static inline void ebbtide_store(Value value, bool* to, int64_t count) {
  if constexpr (EbbtideMask<Value>::value) {
    typename EbbtideMask<Value>::Words words;
    static_assert(sizeof(words) == sizeof(value));
    __builtin_memcpy(&words, &value, sizeof(words));
    const auto bytes = __builtin_convertvector(words, typename EbbtideMask<Value>::Bytes) & 1;
    __builtin_memcpy(to, &bytes, count);
  } else {
    value.store(to, count);
  }
}
template <typename T, int N>
static inline at::vec::VecMask<T, N> ebbtide_load(const bool* from, int64_t count) {
  using Mask = at::vec::VecMask<T, N>;
  if constexpr (EbbtideMask<Mask>::value) {
    typename EbbtideMask<Mask>::Bytes bytes{};
    __builtin_memcpy(&bytes, from, count);
    const auto words = __builtin_convertvector(bytes != 0, typename EbbtideMask<Mask>::Words);
    return Mask(at::vec::VectorizedN<T, N>::loadu(&words));
  } else {
    return Mask::from(from, count);
  }
}
"""

_DRAWN = re.compile(r"for\( int(?:32|64)_t offset_idx = 0; offset_idx < (\d+); offset_idx\+\+ \)\s*\{\s*"
                    r"result\[offset_idx\] = normalized_rand_cpu\((\w+), offset\[offset_idx\]\);\s*\}")


def faster(source: str) -> str:
    """A kernel's source, with such loops as calls of functions of ours; without any, as it is."""
    begin = source.find('extern "C"')
    if begin < 0:
        return source
    functions = ""
    changed, count = _DRAWN.subn(r"ebbtide_rand<\1>(\2, offset, result);", source[begin:])
    if count:
        functions += _RANDOM
    changed, count = _with_bools(changed)
    if count:
        functions += _BOOLS
    return source[:begin] + functions.lstrip() + changed


def _with_bools(source: str) -> tuple[str, int]:
    """With loads and stores through pointers to bools replaced; and how many."""
    names = set(re.findall(r"\bbool\* (\w+)", source))
    names |= {other for other, name in re.findall(r"\bauto (\w+) = (\w+);", source) if name in names}
    if not names:
        return source, 0
    place = rf"((?:{'|'.join(sorted(names))}) \+ [^;]*, static_cast<int64_t>\(\d+L?\)\);)"
    source, loads = re.subn(rf"at::vec::VecMask<(\w+),(\d+)>::from\({place}", r"ebbtide_load<\1,\2>(\3", source)
    source, stores = re.subn(rf"\b(tmp\d+)\.store\({place}", r"ebbtide_store(\1, \2", source)
    return source, loads + stores
