// Numbers of each data type that every op takes.
#include "run/engine/made_up.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "graph/dtype.h"

namespace ebbtide::run {
namespace {

constexpr std::size_t kPattern = 4096;      // elements that repeat
constexpr std::size_t kWritten = 1u << 22;  // bytes at a time

struct Range {
  float low, high;
};

Range RangeOf(StorageKind kind) {
  switch (kind) {
    case StorageKind::kParameter: return {-0.05f, 0.05f};
    case StorageKind::kOptimizerState: return {1e-4f, 1e-3f};
    case StorageKind::kBuffer: return {0.5f, 1.0f};
    default: return {0.0f, 1.0f};  // as probabilities are: binary cross-entropy takes no others
  }
}

template <class T, class Make>
std::vector<std::byte> Repeated(Range range, Make make) {
  std::vector<T> values;
  std::uint32_t state = 12345;
  for (std::size_t i = 0; i < kPattern; ++i) {
    state = state * 1664525u + 1013904223u;
    values.push_back(make(range.low + (range.high - range.low) * static_cast<float>(state >> 8) / 16777216.0f));
  }
  std::vector<std::byte> out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

std::uint32_t BitsOf(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

std::uint16_t BFloat16(float value) { return static_cast<std::uint16_t>(BitsOf(value) >> 16); }

// Of values that are neither very large nor very small: the exponent moves by the difference of the biases.
std::uint16_t Float16(float value) {
  const std::uint32_t bits = BitsOf(value);
  const std::int32_t exponent = static_cast<std::int32_t>((bits >> 23) & 0xff) - 127 + 15;
  if (exponent <= 0) return 0;
  return static_cast<std::uint16_t>(((bits >> 16) & 0x8000) | static_cast<std::uint32_t>(exponent << 10) |
                                    ((bits >> 13) & 0x3ff));
}

std::vector<std::byte> PatternOf(DType dtype, Range range) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kComplex64: return Repeated<float>(range, [](float v) { return v; });
    case DType::kFloat64:
    case DType::kComplex128: return Repeated<double>(range, [](float v) { return static_cast<double>(v); });
    case DType::kBFloat16: return Repeated<std::uint16_t>(range, BFloat16);
    case DType::kFloat16: return Repeated<std::uint16_t>(range, Float16);
    case DType::kBool: return std::vector<std::byte>(kPattern, std::byte{1});
    default: return std::vector<std::byte>(kPattern, std::byte{0});
  }
}

}  // namespace

void FillMadeUp(const TrainingGraph& graph, StorageId storage, Device& device, Bytes address) {
  const Bytes bytes = graph.storage(storage).bytes;
  const auto tensor = std::ranges::find(graph.tensors, storage, &Tensor::storage);
  const DType dtype = tensor == graph.tensors.end() ? DType::kUInt8 : tensor->dtype;
  const std::vector<std::byte> pattern = PatternOf(dtype, RangeOf(graph.storage(storage).kind));
  std::vector<std::byte> many;
  while (many.size() < kWritten && static_cast<Bytes>(many.size()) < bytes)
    many.insert(many.end(), pattern.begin(), pattern.end());
  const Bytes size = static_cast<Bytes>(many.size());
  for (Bytes done = 0; done < bytes; done += size)
    std::ignore = device.Write(many.data(), address + done, std::min(size, bytes - done));
}

}  // namespace ebbtide::run
