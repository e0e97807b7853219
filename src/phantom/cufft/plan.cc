// Plans by number, and how large their work areas are.
#include "phantom/cufft/plan.h"

#include <bit>
#include <mutex>
#include <unordered_map>

#include "phantom/core/device.h"

using namespace ebbtide::phantom;
using ebbtide::Bytes;

namespace {

struct Table {
  std::mutex mutex;
  std::unordered_map<cufftHandle, std::shared_ptr<FftPlan>> plans;
  cufftHandle next = 1;
};

Table& ThePlans() {
  static auto* table = new Table;
  return *table;
}

constexpr long long kLargestPrime = 127;
constexpr long long kLongest = 1LL << 40;

bool NeedsConvolution(long long length) {
  for (long long prime = 2; prime <= kLargestPrime && length > 1; ++prime)
    while (length % prime == 0) length /= prime;
  return length > 1;
}

}  // namespace

namespace ebbtide::phantom {

std::shared_ptr<FftPlan> FindFft(cufftHandle handle) {
  Table& table = ThePlans();
  std::lock_guard lock(table.mutex);
  auto found = table.plans.find(handle);
  return found == table.plans.end() ? nullptr : found->second;
}

cufftResult CreateFft(cufftHandle* out) {
  if (!out) return CUFFT_INVALID_VALUE;
  if (Code code = TheDevice().contexts.Use(); code != Code::kSuccess) return FromCode(code);
  Table& table = ThePlans();
  std::lock_guard lock(table.mutex);
  *out = table.next++;
  table.plans.emplace(*out, std::make_shared<FftPlan>());
  return CUFFT_SUCCESS;
}

cufftResult ReadType(cufftType type, FftShape& shape) {
  switch (type) {
    case CUFFT_C2C:
    case CUFFT_R2C:
    case CUFFT_C2R: shape.complex_bytes = 8; break;
    case CUFFT_Z2Z:
    case CUFFT_D2Z:
    case CUFFT_Z2D: shape.complex_bytes = 16; break;
    default: return CUFFT_INVALID_TYPE;
  }
  shape.is_real = type != CUFFT_C2C && type != CUFFT_Z2Z;
  return CUFFT_SUCCESS;
}

cufftResult WorkArea(const FftShape& shape, Bytes& bytes) {
  if (shape.lengths.empty() || shape.lengths.size() > 3 || shape.batch < 1) return CUFFT_INVALID_SIZE;
  bytes = shape.complex_bytes;
  if (__builtin_mul_overflow(bytes, shape.batch, &bytes)) return CUFFT_INVALID_SIZE;
  for (std::size_t i = 0; i < shape.lengths.size(); ++i) {
    long long length = shape.lengths[i];
    if (length < 1 || length > kLongest) return CUFFT_INVALID_SIZE;
    if (NeedsConvolution(length))
      length = static_cast<long long>(std::bit_ceil(static_cast<unsigned long long>(2 * length - 1)));
    else if (shape.is_real && i + 1 == shape.lengths.size())
      length = length / 2 + 1;
    if (__builtin_mul_overflow(bytes, length, &bytes) || bytes > kTooLarge) return CUFFT_INVALID_SIZE;
  }
  return CUFFT_SUCCESS;
}

cufftResult MakeFft(FftPlan& plan, const FftShape& shape, std::size_t* work_bytes) {
  if (plan.is_made) return CUFFT_INVALID_PLAN;  // a plan is made once
  Bytes bytes = 0;
  if (cufftResult result = WorkArea(shape, bytes); result != CUFFT_SUCCESS) return result;
  if (plan.allocates)
    if (Code code = AllocateDevice(bytes, &plan.own_area); code != Code::kSuccess) return FromCode(code);
  plan.work_bytes = bytes;
  plan.is_made = true;
  if (work_bytes) *work_bytes = static_cast<std::size_t>(bytes);
  return CUFFT_SUCCESS;
}

cufftResult FromCode(Code code) {
  switch (code) {
    case Code::kSuccess: return CUFFT_SUCCESS;
    case Code::kOutOfMemory: return CUFFT_ALLOC_FAILED;
    case Code::kInvalidValue: return CUFFT_INVALID_VALUE;
    case Code::kNotSupported: return CUFFT_NOT_SUPPORTED;
    case Code::kNoDevice:
    case Code::kNotInitialized: return CUFFT_SETUP_FAILED;
    default: return CUFFT_EXEC_FAILED;
  }
}

}  // namespace ebbtide::phantom

cufftResult cufftCreate(cufftHandle* out) {
  EBB_PHANTOM_CALL(FromCode, "cufftCreate");
  return CreateFft(out);
}

cufftResult cufftDestroy(cufftHandle handle) {
  EBB_PHANTOM_CALL(FromCode, "cufftDestroy", handle);
  std::shared_ptr<FftPlan> plan;
  {
    Table& table = ThePlans();
    std::lock_guard lock(table.mutex);
    auto found = table.plans.find(handle);
    if (found == table.plans.end()) return CUFFT_INVALID_PLAN;
    plan = std::move(found->second);
    table.plans.erase(found);
  }
  return plan->own_area ? FromCode(FreeDevice(plan->own_area)) : CUFFT_SUCCESS;
}
