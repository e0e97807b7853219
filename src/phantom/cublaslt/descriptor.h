// The descriptors of cuBLASLt. Programs may keep them in their own memory (cublasLt...Init), in as many bytes as the
// header of their generation sets aside; so values lie packed behind a mark that tells what kind of descriptor it is.
#pragma once

#pragma GCC visibility push(default)
#include <cublasLt.h>
#pragma GCC visibility pop

#include <cstdint>
#include <cstring>

#include "phantom/core/api.h"

namespace ebbtide::phantom {

struct LtAttribute {
  std::int16_t id;
  std::uint8_t size;
  std::int64_t initial = 0;  // its bytes are the value's
};

struct LtKind {
  std::uint32_t mark;
  const LtAttribute* attributes;
  int count;
};

// Of CUDA 12.4 and 13.2; numbers that only one of them has are known in both.
extern const LtKind kLayoutKind, kMatmulKind, kPreferenceKind, kTransformKind;

// Bytes that a descriptor takes. Those of CUDA 12.4 set aside 64 for a layout, 256 for a product, 64 for a preference.
int LtSize(const LtKind& kind);

void LtInitialize(const LtKind& kind, void* descriptor);
bool LtIs(const LtKind& kind, const void* descriptor);
cublasStatus_t LtSet(const LtKind& kind, void* descriptor, int id, const void* value, std::size_t bytes);
cublasStatus_t LtGet(const LtKind& kind, const void* descriptor, int id, void* value, std::size_t bytes,
                     std::size_t* written);

// The value of an attribute that is known to be there.
std::int64_t LtValue(const LtKind& kind, const void* descriptor, int id);
void LtAssign(const LtKind& kind, void* descriptor, int id, std::int64_t value);

cublasStatus_t FromCode(Code code);

}  // namespace ebbtide::phantom
