// The race checker on a million stream operations: eight streams, as a training step with swapping has them. The bound
// is one minute; `of_the_bound` is the share of it that was taken, `cells` what it remembers at the end. The exit code
// is 1 where it took longer, found a race in the program that waits, or none in the one that does not.
#include <benchmark/benchmark.h>

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "phantom/core/race.h"

namespace ebbtide::phantom {
namespace {

constexpr int kStreams = 8;
constexpr int kOperations = 1000000;
constexpr double kBoundSeconds = 60;
constexpr Bytes kPool = Bytes{1} << 30;

bool is_promise_broken = false;

struct Program {
  std::mt19937 random{1};
  RaceChecker checker;
  std::vector<RaceChecker::Clock> events{64};
  std::vector<std::string> names, frames;
  bool waits = true;  // false: the waits that a correct program needs are left out

  std::uint64_t Below(std::uint64_t limit) { return random() % limit; }

  // Tensors of 512 bytes to 16 MiB, at any multiple of 512: ranges overlap, split and join all the time.
  Access Tensor(AccessKind kind) {
    Bytes bytes = Bytes{512} << Below(16);
    return {Below(static_cast<std::uint64_t>(kPool - bytes)) / 512 * 512, bytes, kind};
  }

  void Run() {
    for (int i = 0; i < kStreams; ++i) checker.StreamCreated();
    for (int i = 0; i < 200; ++i) names.push_back("aten::op" + std::to_string(i));
    for (int i = 0; i < 500; ++i) frames.push_back("model/layers.py:" + std::to_string(i));
    std::vector<Access> accesses;
    for (int i = 0; i < kOperations; ++i) Step(accesses);
  }

  void Step(std::vector<Access>& accesses) {
    int stream = static_cast<int>(Below(kStreams));
    std::uint64_t what = Below(100);
    if (what < 10) {
      events[Below(events.size())] = checker.Recorded(stream);
    } else if (what < 20) {
      checker.StreamWaits(stream, events[Below(events.size())]);
    } else if (what == 20 && Below(20) == 0) {
      checker.HostSynchronized(stream);
    } else {
      if (waits) {
        for (int other = 0; other < kStreams; ++other)
          if (other != stream) checker.StreamWaits(stream, checker.Recorded(other));
      }
      accesses.clear();
      for (std::uint64_t n = Below(3); n-- > 0;) accesses.push_back(Tensor(AccessKind::kRead));
      accesses.push_back(Tensor(AccessKind::kWrite));
      checker.Operation(stream, names[Below(names.size())], frames[Below(frames.size())], accesses);
    }
  }
};

void RunProgram(benchmark::State& state, bool waits) {
  for (auto _ : state) {
    Program program;
    program.waits = waits;
    auto begin = std::chrono::steady_clock::now();
    program.Run();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    is_promise_broken |= seconds > kBoundSeconds || waits != (program.checker.race_count() == 0);
    state.counters["of_the_bound"] = seconds / kBoundSeconds;
    state.counters["races"] = static_cast<double>(program.checker.race_count());
    state.counters["accesses"] = static_cast<double>(program.checker.access_count());
    state.counters["cells"] = static_cast<double>(program.checker.cell_count());
  }
}

void CorrectProgram(benchmark::State& state) { RunProgram(state, true); }
void RacyProgram(benchmark::State& state) { RunProgram(state, false); }

BENCHMARK(CorrectProgram)->Unit(benchmark::kSecond)->Iterations(1);
BENCHMARK(RacyProgram)->Unit(benchmark::kSecond)->Iterations(1);

}  // namespace
}  // namespace ebbtide::phantom

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return ebbtide::phantom::is_promise_broken ? 1 : 0;
}
