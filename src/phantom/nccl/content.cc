// Contents of collectives that are small enough to be known, and the arithmetic of reductions on them.
#include <algorithm>
#include <bit>
#include <cstring>

#include "phantom/core/declare.h"
#include "phantom/core/device.h"
#include "phantom/nccl/communicator.h"

namespace ebbtide::phantom {
namespace {

// A 16-bit float as the float32 that it stands for, and back, rounded to nearest even.
float FromBfloat16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t ToBfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return 0x7fc0;
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <class T>
T Apply(T a, T b, int operation) {
  switch (operation) {
    case ncclProd: return static_cast<T>(a * b);
    case ncclMax: return std::max(a, b);
    case ncclMin: return std::min(a, b);
    default: return static_cast<T>(a + b);
  }
}

template <class T>
void ReduceAs(std::byte* result, const std::byte* other, std::uint64_t count, int operation) {
  for (std::uint64_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, result + i * sizeof(T), sizeof(T));
    std::memcpy(&b, other + i * sizeof(T), sizeof(T));
    a = Apply(a, b, operation);
    std::memcpy(result + i * sizeof(T), &a, sizeof(T));
  }
}

void ReduceBfloat16(std::byte* result, const std::byte* other, std::uint64_t count, int operation) {
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint16_t a, b;
    std::memcpy(&a, result + i * 2, 2);
    std::memcpy(&b, other + i * 2, 2);
    a = ToBfloat16(Apply(FromBfloat16(a), FromBfloat16(b), operation));
    std::memcpy(result + i * 2, &a, 2);
  }
}

template <class T>
void DivideAs(std::byte* result, std::uint64_t count, int by) {
  for (std::uint64_t i = 0; i < count; ++i) {
    T a;
    std::memcpy(&a, result + i * sizeof(T), sizeof(T));
    a = static_cast<T>(a / static_cast<T>(by));
    std::memcpy(result + i * sizeof(T), &a, sizeof(T));
  }
}

}  // namespace

bool ReadContent(const void* address, Bytes bytes, std::byte* out) {
  if (bytes == 0) return true;
  if (const void* content = ebbtide_phantom_content(address, static_cast<std::size_t>(bytes))) {
    std::memcpy(out, content, static_cast<std::size_t>(bytes));
    return true;
  }
  std::uint32_t origin = 0;
  return TheDevice().known.Read(reinterpret_cast<Address>(address), bytes, out, &origin) && origin == 0;
}

void WriteContent(void* address, Bytes bytes, const std::byte* data) {
  if (bytes == 0 || !address) return;
  if (void* content = ebbtide_phantom_content(address, static_cast<std::size_t>(bytes))) {
    if (data) std::memcpy(content, data, static_cast<std::size_t>(bytes));
    return;
  }
  if (data)
    TheDevice().known.Write(reinterpret_cast<Address>(address), data, bytes, 0);
  else
    TheDevice().known.Forget(reinterpret_cast<Address>(address), bytes);
}

bool Reduce(std::byte* result, const std::byte* other, std::uint64_t count, int type, int operation) {
  if (operation < 0 || operation >= ncclNumOps) return false;
  switch (type) {
    case ncclInt8: ReduceAs<std::int8_t>(result, other, count, operation); return true;
    case ncclUint8: ReduceAs<std::uint8_t>(result, other, count, operation); return true;
    case ncclInt32: ReduceAs<std::int32_t>(result, other, count, operation); return true;
    case ncclUint32: ReduceAs<std::uint32_t>(result, other, count, operation); return true;
    case ncclInt64: ReduceAs<std::int64_t>(result, other, count, operation); return true;
    case ncclUint64: ReduceAs<std::uint64_t>(result, other, count, operation); return true;
    case ncclFloat32: ReduceAs<float>(result, other, count, operation); return true;
    case ncclFloat64: ReduceAs<double>(result, other, count, operation); return true;
    case ncclBfloat16: ReduceBfloat16(result, other, count, operation); return true;
    default: return false;  // half precision and float8: not known
  }
}

bool Divide(std::byte* result, std::uint64_t count, int type, int by) {
  switch (type) {
    case ncclInt32: DivideAs<std::int32_t>(result, count, by); return true;
    case ncclInt64: DivideAs<std::int64_t>(result, count, by); return true;
    case ncclFloat32: DivideAs<float>(result, count, by); return true;
    case ncclFloat64: DivideAs<double>(result, count, by); return true;
    default: return false;
  }
}

}  // namespace ebbtide::phantom
