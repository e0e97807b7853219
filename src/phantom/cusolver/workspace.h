// How much memory a factorization works in, in elements of the matrix. cuSOLVER does not publish its sizes. These are
// what LAPACK asks for when it works on 32 columns at a time, and one or two copies of the matrix for the Jacobi
// methods.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ebbtide::phantom {

inline constexpr std::int64_t kBlockColumns = 32;

// geqrf, orgqr, potrf, getrf, sytrf: a block of columns as wide as the matrix.
inline std::int64_t BlockWork(std::int64_t columns) { return std::max<std::int64_t>(1, columns) * kBlockColumns; }

// gesvd: the bidiagonal form, and blocks for both sides.
inline std::int64_t SingularValueWork(std::int64_t m, std::int64_t n) {
  return 3 * std::min(m, n) + (m + n) * kBlockColumns;
}

// gesvdj, gesvda: a copy of the matrix, and a square one for the rotations.
inline std::int64_t JacobiWork(std::int64_t m, std::int64_t n) { return m * n + std::min(m, n) * std::min(m, n); }

// syevd, heevd: LAPACK's 1 + 6 n + 2 n^2.
inline std::int64_t EigenWork(std::int64_t n) { return 1 + 6 * n + 2 * n * n; }

// geev: the Hessenberg form, and blocks.
inline std::int64_t GeneralEigenWork(std::int64_t n) { return n * n + 3 * n + BlockWork(n); }

}  // namespace ebbtide::phantom
