// Serves the requests of an op: births at their places, the rest from scratch memory and from what is free.
#include "run/engine/step_memory.h"

#include <algorithm>

namespace ebbtide::run {

Bytes Region::Allocate(Bytes bytes) {
  const Bytes size = RoundUp(std::max<Bytes>(bytes, 1), alignment_);
  Bytes at = begin_;
  auto before = pieces_.begin();
  for (; before != pieces_.end(); ++before) {
    if (before->first - at >= size) break;
    at = before->second;
  }
  if (end_ - at < size) return -1;
  pieces_.insert(before, {at, at + size});
  live_ += size;
  return at;
}

bool Region::Release(Bytes address) {
  const auto piece = std::ranges::lower_bound(pieces_, address, {}, [](const auto& p) { return p.first; });
  if (piece == pieces_.end() || piece->first != address) return false;
  live_ -= piece->second - piece->first;
  pieces_.erase(piece);
  return true;
}

void StepMemory::Begin(const Instruction& instruction, const Requests& requests, FreeRanges free) {
  instruction_ = &instruction;
  requests_ = &requests;
  free_ = std::move(free);
  taken_.assign(instruction.births.size(), false);
  history_.clear();
  scratch_ = Region(instruction.scratch_address, instruction.scratch_bytes, alignment_);
  others_.clear();
  others_known_ = false;
  highest_ = most_ = live_ = beyond_ = 0;
}

void* StepMemory::Allocate(std::size_t size) {
  const Bytes bytes = static_cast<Bytes>(size);
  if (!instruction_->in_update && Fails()) return nullptr;
  Bytes address = -1;
  const auto give = [&](std::size_t birth) {
    taken_[birth] = true;
    address = instruction_->births[birth].address;
  };
  if (!requests_->empty()) {
    const std::size_t n = history_.size();
    const std::int32_t birth = n < requests_->size() ? (*requests_)[n] : -1;
    // `requests` may be from a file.
    if (birth >= 0 && static_cast<std::size_t>(birth) < taken_.size() && !taken_[static_cast<std::size_t>(birth)] &&
        instruction_->births[static_cast<std::size_t>(birth)].bytes >= bytes) {
      give(static_cast<std::size_t>(birth));
    }
  } else {
    for (std::size_t i = 0; i < taken_.size() && address < 0; ++i) {
      if (!taken_[i] && instruction_->births[i].bytes == bytes) give(i);
    }
  }
  if (address < 0) address = AllocateScratch(bytes);
  if (address < 0) return nullptr;
  history_.emplace_back(address, RoundUp(bytes, alignment_));
  return device_.At(address);
}

Bytes StepMemory::AllocateScratch(Bytes bytes) {
  Bytes address = scratch_.Allocate(bytes);
  if (address < 0) {
    if (instruction_->in_update && Fails()) return -1;
    if (!others_known_) {
      others_known_ = true;
      for (const auto& [begin, size] : free_()) others_.emplace_back(begin, size, alignment_);
    }
    for (Region& region : others_) {
      if ((address = region.Allocate(bytes)) < 0) continue;
      beyond_ += bytes;
      break;
    }
  }
  if (address < 0) return -1;
  highest_ = std::max(highest_, address + RoundUp(bytes, alignment_));
  live_ = scratch_.live();
  for (const Region& region : others_) live_ += region.live();
  most_ = std::max(most_, live_);
  return address;
}

bool StepMemory::Fails() { return fail_at_ > 0 && --fail_at_ == 0; }

bool StepMemory::Release(void* pointer) {
  if (!instruction_) return false;
  const Bytes address = static_cast<std::byte*>(pointer) - device_.At(0);
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    if (taken_[i] && instruction_->births[i].address == address) {
      taken_[i] = false;
      return true;
    }
  }
  if (scratch_.Release(address)) return true;
  return std::ranges::any_of(others_, [&](Region& region) { return region.Release(address); });
}

Requests StepMemory::RequestsOf(std::span<const Made> made) const {
  Requests out(history_.size(), -1);
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (made[i].bytes == 0) continue;
    const Bytes address = made[i].at - device_.At(0);
    // The last one that was given this address: it may have been given out and taken back before.
    for (std::size_t n = history_.size(); n-- > 0;) {
      if (history_[n].first != address) continue;
      out[n] = static_cast<std::int32_t>(i);
      break;
    }
  }
  return out;
}

}  // namespace ebbtide::run
