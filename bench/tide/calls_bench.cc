// The tide allocator's own cost per call, with 10^3 to 10^6 chunks that live: one is freed at random, another
// allocated. Beside the time, which has the machine's caches in it, how far a call's cost is from flat: the ratio to
// that with 10^3.
//   bench_tide [PAIRS [LIVE ROW]]   pairs of calls to measure, 1,000,000 if not given; one figure alone, for a profiler
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "tide/tide.h"

namespace ebbtide::tide {
namespace {

constexpr std::size_t kLag = 64;  // frees of a stream that the device has not got to

struct Workload {
  const char* name;
  std::size_t streams;
  Bytes least, most;  // sizes, in steps of 512 bytes
};

// Nanoseconds that this thread had of a processor: others may run beside.
double ProcessorTime() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

// Nanoseconds for one call.
double Measure(const Workload& workload, std::size_t live, std::size_t pairs) {
  DeviceMemory device;
  Streams streams;
  TideAllocator tide(device, streams);
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> words(1 << 16);
  for (std::uint64_t& word : words) word = random();
  std::size_t next = 0;
  const auto word = [&] { return words[next++ % words.size()]; };
  const auto allocate = [&] {
    const Bytes steps = (workload.most - workload.least) / 512 + 1;
    const Bytes bytes = workload.least + static_cast<Bytes>(word() % static_cast<std::uint64_t>(steps)) * 512;
    return tide.Allocate(bytes, StreamId(word() % workload.streams))->id;
  };
  std::vector<BlockId> blocks;
  for (std::size_t i = 0; i < live; ++i) blocks.push_back(allocate());
  std::vector<Event> running(workload.streams * kLag);
  const auto run = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      BlockId& block = blocks[random() % live];
      const StreamId stream(i % workload.streams);
      streams.Submit(stream);
      Event& slot = running[i % running.size()];
      if (slot.stream.valid()) streams.Finish(slot);
      slot = streams.Record(stream);
      tide.Free(block);
      block = allocate();
    }
  };
  run(std::max(pairs / 4, live));
  double best = 1e30;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const double begin = ProcessorTime();
    run(pairs);
    best = std::min(best, ProcessorTime() - begin);
  }
  return best / static_cast<double>(2 * pairs);
}

int Run(std::size_t pairs, std::size_t only_live, std::size_t only_row) {
  const Workload workloads[] = {{"1 stream, 512 B to 4 KiB", 1, 512, 4096},
                                {"1 stream, 512 B to 64 KiB", 1, 512, 65536},
                                {"1 stream, 1.5 to 5.5 MiB", 1, 3 * kMiB / 2, 11 * kMiB / 2},
                                {"16 streams, 512 B to 4 KiB", 16, 512, 4096},
                                {"16 streams, 512 B to 64 KiB", 16, 512, 65536}};
  fmt::print("ns for a call (ratio to 10^3)     10^3           10^4           10^5           10^6 live\n");
  for (const Workload& workload : workloads) {
    if (only_live > 0 && &workload != &workloads[only_row]) continue;
    fmt::print("{:30}", workload.name);
    double first = 0;
    for (const std::size_t live : {1000, 10000, 100000, 1000000}) {
      if (only_live > 0 && live != only_live) continue;
      if (workload.most > kMiB && live > 100000) continue;  // more than there are addresses for
      const double ns = Measure(workload, live, pairs);
      if (first == 0) first = ns;
      fmt::print(" {:6.1f} ({:4.2f})", ns, ns / first);
      std::fflush(stdout);
    }
    fmt::print("\n");
  }
  return 0;
}

}  // namespace
}  // namespace ebbtide::tide

int main(int argc, char** argv) {
  const auto argument = [&](int i, std::size_t otherwise) { return argc > i ? std::stoul(argv[i]) : otherwise; };
  return ebbtide::tide::Run(argument(1, 1000000), argument(2, 0), argument(3, 0));
}
