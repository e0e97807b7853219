// Allocator models under any requests, also of sizes that no device has: whatever is asked for, a block within the
// device or "out of memory"; no two blocks share a byte, and the books balance.
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "alloc/make.h"
#include "fuzz/require.h"
#include "trace/replay.h"

namespace {

using namespace ebbtide;

// Reads numbers from the input; zeros once it is at its end.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  std::uint8_t Byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  // Small, large, beyond any device, negative: by its first byte.
  Bytes Size() {
    const std::uint8_t kind = Byte();
    std::int64_t value = 0;
    for (int i = 0; i < 1 + kind % 8; ++i)
      value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << 8 | Byte());
    switch (kind / 8 % 6) {
      case 0: return value & 0xfffff;
      case 1: return (value & 0xff) * kMiB;
      case 2: return (value & 0xffff) * kGiB + 1;
      case 3: return std::numeric_limits<Bytes>::max() - (value & 0xffff);
      case 4: return Bytes{1} << (value & 62);
      default: return value;
    }
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

constexpr Bytes kCapacities[] = {64 * kMiB, 16 * kGiB, Bytes{1} << 46, kTooLarge};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input in(data, size);
  const auto& models = trace::ReplayModels();
  const alloc::AllocatorModel& model = models[in.Byte() % models.size()];
  const Bytes capacity = kCapacities[in.Byte() % std::size(kCapacities)];
  alloc::DeviceMemory device({.total = capacity});
  alloc::Streams streams;
  const auto choice = alloc::ChooseAllocator(std::string(model.name), "", models);
  Require(choice.has_value(), "every model can be chosen");
  const auto allocator = alloc::MakeAllocator(*choice, device, streams);
  std::vector<alloc::Block> held;
  std::map<alloc::Address, Bytes> places;
  while (!in.empty()) {
    const std::uint8_t what = in.Byte();
    const alloc::StreamId stream(what / 16 % 3);
    if (what % 16 < 9) {
      const Bytes asked = in.Size();
      const std::optional<alloc::Block> block = allocator->Allocate(asked, stream);
      Require(!block || (asked >= 0 && block->bytes >= asked && block->bytes <= capacity), "a block is large enough");
      if (!block) continue;
      if (block->bytes > 0) {
        const auto next = places.lower_bound(block->address);
        Require(next == places.end() || block->address + static_cast<std::uint64_t>(block->bytes) <= next->first,
                "no overlap");
        Require(next == places.begin() ||
                    std::prev(next)->first + static_cast<std::uint64_t>(std::prev(next)->second) <= block->address,
                "no overlap");
        places.emplace(block->address, block->bytes);
      }
      held.push_back(*block);
    } else if (what % 16 < 13 && !held.empty()) {
      const std::size_t which = in.Byte() % held.size();
      places.erase(held[which].address);
      allocator->Free(held[which].id);
      held[which] = held.back();
      held.pop_back();
    } else if (what % 16 == 13 && !held.empty()) {
      streams.Submit(stream);
      allocator->RecordStream(held[in.Byte() % held.size()].id, stream);
    } else if (what % 16 == 14) {
      allocator->EmptyCache();
    } else {
      streams.FinishAll();
    }
    const alloc::Usage& usage = allocator->usage();
    Require(usage.allocated <= usage.reserved && usage.reserved <= capacity && device.used() <= capacity,
            "it is within the device");
  }
  return 0;
}
