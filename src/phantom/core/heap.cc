// First fit in the blocks of small pieces; a block of its own for every large request.
#include "phantom/core/heap.h"

namespace ebbtide::phantom {

Code Heap::NewBlock(Bytes bytes, Address& begin, std::shared_ptr<Physical>& physical) {
  physical = Physical::Create(ledger_, budget_, bytes, Physical::Share::kPrivate);
  if (!physical) return Code::kOutOfMemory;
  begin = ReserveAddresses(bytes, kBlockBytes);
  return begin == 0 ? Code::kOutOfMemory : Code::kSuccess;
}

Code Heap::Allocate(Bytes bytes, Address& out) {
  if (bytes <= 0 || bytes > kTooLarge) return bytes <= 0 ? Code::kInvalidValue : Code::kOutOfMemory;
  return bytes <= kLargestSmallRequest ? AllocateSmall(bytes, out) : AllocateLarge(bytes, out);
}

Code Heap::AllocateLarge(Bytes bytes, Address& out) {
  std::shared_ptr<Physical> physical;
  Address begin = 0;
  Bytes rounded = (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  if (Code code = NewBlock(rounded, begin, physical); code != Code::kSuccess) return code;
  out = begin;
  space_.Insert({.begin = begin, .size = bytes, .kind = RangeKind::kDevice, .physical = std::move(physical)});
  return Code::kSuccess;
}

Code Heap::AllocateSmall(Bytes bytes, Address& out) {
  Bytes step = (bytes + kSmallStep - 1) / kSmallStep * kSmallStep;
  std::lock_guard lock(mutex_);
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (auto& [begin, block] : blocks_) {
      for (auto gap = block.gaps.begin(); gap != block.gaps.end(); ++gap) {
        auto [offset, size] = *gap;
        if (size < step) continue;
        block.gaps.erase(gap);
        if (size > step) block.gaps.emplace(offset + step, size - step);
        out = begin + static_cast<Address>(offset);
        space_.Insert(
            {.begin = out, .size = bytes, .kind = RangeKind::kDevice, .physical = block.physical, .offset = offset});
        return Code::kSuccess;
      }
    }
    Block block;
    Address begin = 0;
    if (Code code = NewBlock(kBlockBytes, begin, block.physical); code != Code::kSuccess) return code;
    block.gaps.emplace(0, kBlockBytes);
    blocks_.emplace(begin, std::move(block));
  }
  return Code::kOutOfMemory;
}

Code Heap::Free(Address address, Bytes& freed) {
  std::optional<Range> range = space_.Erase(address, RangeKind::kDevice);
  if (!range) return Code::kInvalidValue;
  freed = range->size;
  if (range->size > kLargestSmallRequest) {
    ReleaseAddresses(address, range->physical->size());
    return Code::kSuccess;
  }
  std::lock_guard lock(mutex_);
  auto block = blocks_.find(address - static_cast<Address>(range->offset));
  Bytes begin = range->offset;
  Bytes end = begin + (range->size + kSmallStep - 1) / kSmallStep * kSmallStep;
  std::map<Bytes, Bytes>& gaps = block->second.gaps;
  auto next = gaps.lower_bound(begin);
  if (next != gaps.end() && next->first == end) {
    end += next->second;
    next = gaps.erase(next);
  }
  if (next != gaps.begin() && std::prev(next)->first + std::prev(next)->second == begin) {
    begin = std::prev(next)->first;
    gaps.erase(std::prev(next));
  }
  gaps.emplace(begin, end - begin);
  if (end - begin == kBlockBytes) {
    ReleaseAddresses(block->first, kBlockBytes);
    blocks_.erase(block);
  }
  return Code::kSuccess;
}

}  // namespace ebbtide::phantom
