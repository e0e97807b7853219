// The device memory of one op while it runs: the places that the plan has for what it makes, its scratch memory, and,
// where that is not enough, what happens to be free in the pool.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "run/device/device.h"
#include "run/engine/op_runner.h"
#include "run/engine/program.h"

namespace ebbtide::run {

// A part of the pool that is handed out piece by piece, lowest address first.
class Region {
 public:
  Region() = default;
  Region(Bytes begin, Bytes bytes, Bytes alignment) : begin_(begin), end_(begin + bytes), alignment_(alignment) {}
  // Returns the lowest address that has room, or -1.
  Bytes Allocate(Bytes bytes);
  // Returns false where nothing was handed out at the address.
  bool Release(Bytes address);
  Bytes live() const { return live_; }

 private:
  Bytes begin_ = 0, end_ = 0, alignment_ = 1, live_ = 0;
  std::vector<std::pair<Bytes, Bytes>> pieces_;  // [begin, end), ordered
};

// In which of an op's requests for memory the storages that it makes are asked for: by request, the place among the
// births, or -1. Empty: not known; a request of a birth's size is then taken for it.
using Requests = std::vector<std::int32_t>;

class StepMemory final : public OpMemory {
 public:
  using FreeRanges = std::function<std::vector<std::pair<Bytes, Bytes>>()>;

  static constexpr Bytes kAlignment = 64;  // of scratch memory, as torch's own

  explicit StepMemory(Device& device, Bytes alignment = kAlignment) : device_(device), alignment_(alignment) {}

  // For the op of `instruction`; it and `requests` are used until the next Begin. `free` gives what else there is in
  // the pool: (address, bytes).
  void Begin(const Instruction& instruction, const Requests& requests, FreeRanges free);
  void* Allocate(std::size_t bytes) override;
  bool Release(void* address) override;
  // Which of the requests since Begin were for what was made.
  Requests RequestsOf(std::span<const Made> made) const;

  // Since Begin: what was given out, (address, bytes); and of what was not for births, one past the highest address,
  // the most bytes at once, and how many were not in the scratch memory of the plan.
  std::span<const std::pair<Bytes, Bytes>> given() const { return history_; }
  Bytes highest() const { return highest_; }
  Bytes most() const { return most_; }
  Bytes beyond() const { return beyond_; }
  // Makes the n-th request from now fail; 0: none. In the update those that the plan has a place for do not count.
  void FailAt(std::int64_t n) { fail_at_ = n; }

 private:
  Bytes AllocateScratch(Bytes bytes);
  bool Fails();

  Device& device_;
  const Bytes alignment_;
  const Instruction* instruction_ = nullptr;
  const Requests* requests_ = nullptr;
  FreeRanges free_;
  std::vector<bool> taken_;                       // by birth
  std::vector<std::pair<Bytes, Bytes>> history_;  // requests: (address, bytes, rounded up)
  Region scratch_;
  std::vector<Region> others_;
  bool others_known_ = false;
  Bytes highest_ = 0, most_ = 0, live_ = 0, beyond_ = 0;
  std::int64_t fail_at_ = 0;
};

}  // namespace ebbtide::run
