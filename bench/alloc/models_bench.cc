// Allocations plus frees per second of every allocator model, at 10^3 to 10^6 live blocks, as a ratio to a pair of
// malloc and free under the same sequence; and a copy of the whole state.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <vector>

#include "alloc/make.h"
#include "trace/replay.h"

namespace ebbtide::alloc {
namespace {

constexpr std::size_t kOperations = 1'000'000;  // allocations, and as many frees

// Sizes as training has them: many small, some large, most of them seen before.
std::vector<Bytes> Sizes(std::size_t count, Bytes largest) {
  std::minstd_rand random(1);
  std::vector<Bytes> palette;
  for (int i = 0; i < 60; ++i) palette.push_back(static_cast<Bytes>(512) << (random() % 16));
  std::vector<Bytes> sizes(count);
  for (Bytes& size : sizes) {
    size = random() % 4 ? palette[random() % palette.size()] : 1 + static_cast<Bytes>(random()) % (4 * kMiB);
    size = std::min(size, largest);
  }
  return sizes;
}

double Seconds(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Calls per second of: fill to `live`, then free a random one and allocate another, over and over.
template <class Take, class Drop>
double CallsPerSecond(std::size_t live, const std::vector<Bytes>& sizes, Take take, Drop drop) {
  using Held = decltype(take(Bytes{1}));
  std::vector<Held> held;
  for (std::size_t i = 0; i < live; ++i) held.push_back(take(sizes[i % sizes.size()]));
  std::minstd_rand random(2);
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < kOperations; ++i) {
    Held& one = held[random() % live];
    drop(one);
    one = take(sizes[i % sizes.size()]);
  }
  const double seconds = Seconds(begin);
  for (Held& one : held) drop(one);
  return 2 * static_cast<double>(kOperations) / seconds;
}

void Run(std::size_t live) {
  const std::vector<Bytes> sizes = Sizes(kOperations, 4 * kMiB);
  const std::vector<Bytes> host_sizes = Sizes(kOperations, 4 * kKiB);  // the host has no memory for more
  const double host = CallsPerSecond(
      live, host_sizes, [](Bytes bytes) { return std::malloc(static_cast<std::size_t>(bytes)); },
      [](void*& block) { std::free(block); });
  fmt::print("{:>9} live  {:<20} {:6.1f} M calls/s\n", live, "malloc of the host", host / 1e6);
  for (const AllocatorModel& model : trace::ReplayModels()) {
    DeviceMemory device;
    Streams streams;
    const auto allocator = MakeAllocator({.model = model, .pytorch = {}}, device, streams);
    const double calls = CallsPerSecond(
        live, sizes, [&](Bytes bytes) { return allocator->Allocate(bytes, StreamId(0))->id; },
        [&](BlockId& block) { allocator->Free(block); });
    fmt::print("{:>9} live  {:<20} {:6.1f} M calls/s  {:.2f} of malloc\n", live, model.name, calls / 1e6, calls / host);
  }
}

}  // namespace
}  // namespace ebbtide::alloc

int main() {
  for (const std::size_t live : {1'000, 10'000, 100'000, 1'000'000}) ebbtide::alloc::Run(live);
}
