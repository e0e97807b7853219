// Pseudo-random bits without state: the same inputs give the same bits, in any order of calls.
#pragma once

#include <cstdint>

namespace ebbtide::phantom {

inline std::uint64_t MixBits(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a + 0x9e3779b97f4a7c15u * (b + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace ebbtide::phantom
