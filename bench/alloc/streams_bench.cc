// Recorded traces (torch-traces of EBBTIDE_DATA) through every allocator model, alone and as 2, 4 and 8 jobs on streams
// of their own, which share one allocator: peak of reserved bytes over the peak in use. The host is ahead of the
// device: work is finished some events after it was submitted. Counts where tide takes more than the least of
// PyTorch's allocator, cudaMallocAsync and RMM, and fails where that is over 2 % more; expandable segments stand
// beside.
//   bench_streams [LAG ...]   events of a stream that are not finished yet: 0, 64 and 1024 if not given
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "alloc/make.h"
#include "tests/support/folders.h"
#include "trace/replay.h"
#include "trace/trace.h"

namespace ebbtide::trace {
namespace {

using alloc::Allocator;
using alloc::AllocatorModel;
using alloc::Block;
using alloc::BlockId;
using alloc::DeviceMemory;
using alloc::Event;
using alloc::Streams;

// One job: the trace on a stream of its own.
class Job {
 public:
  Job(const Trace& trace, StreamId stream, std::size_t lag)
      : trace_(trace), stream_(stream), lag_(lag), blocks_(static_cast<std::size_t>(trace.blocks)) {}

  bool Begin(Allocator& allocator) {
    std::size_t block = 0;
    for (const InitialSegment& segment : trace_.segments) {
      for (const InitialBlock& piece : segment.blocks) {
        if (!piece.allocated) continue;
        if (!Take(allocator, block++, piece.requested)) return false;
      }
    }
    return true;
  }
  bool done() const { return next_ == trace_.events.size(); }
  bool Step(Allocator& allocator, Streams& streams) {
    const TraceEvent& event = trace_.events[next_++];
    const auto block = static_cast<std::size_t>(event.block);
    if (event.action == Action::kAllocate && event.bytes > 0 && !Take(allocator, block, event.bytes)) return false;
    const bool frees = event.action == Action::kFree || event.action == Action::kFreeRequested;
    if (frees && blocks_[block].valid()) allocator.Free(blocks_[block]);
    streams.Submit(stream_);
    running_.push_back(streams.Record(stream_));
    if (running_.size() > lag_) {
      streams.Finish(running_.front());
      running_.pop_front();
    }
    return true;
  }

 private:
  bool Take(Allocator& allocator, std::size_t block, Bytes bytes) {
    const std::optional<Block> got = allocator.Allocate(bytes, stream_);
    if (got) blocks_[block] = got->id;
    return got.has_value();
  }
  const Trace& trace_;
  const StreamId stream_;
  const std::size_t lag_;
  std::size_t next_ = 0;
  std::vector<BlockId> blocks_;
  std::deque<Event> running_;
};

// Reserved over allocated at their peaks. `shifted`: the jobs begin one after another, evenly spread over the trace.
constexpr Bytes kMostOver = 50;  // a fiftieth: 2 %

double Overhead(const AllocatorModel& model, const Trace& trace, std::size_t count, bool shifted, std::size_t lag,
                Bytes& reserved) {
  DeviceMemory device;
  Streams streams;
  const auto allocator = MakeAllocator({.model = model, .pytorch = {}}, device, streams);
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < count; ++i) jobs.emplace_back(trace, StreamId(i), lag);
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < count; ++i) begins.push_back(shifted ? trace.events.size() * i / count : 0);
  for (std::size_t round = 0; !std::ranges::all_of(jobs, &Job::done); ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      if (round == begins[i]) jobs[i].Begin(*allocator);
      if (round >= begins[i] && !jobs[i].done()) jobs[i].Step(*allocator, streams);
    }
  }
  reserved = allocator->usage().reserved_peak;
  return static_cast<double>(reserved) / static_cast<double>(allocator->usage().allocated_peak);
}

// The cases in which tide takes over 2 % more than the others, or -1 where a trace cannot be read.
int Compare(const std::filesystem::path& folder, std::size_t lag) {
  std::vector<AllocatorModel> models;
  for (const AllocatorModel& model : ReplayModels()) {
    if (!model.name.starts_with("mxnet") && !model.name.starts_with("bfc") && model.name != "no-fragmentation")
      models.push_back(model);
  }
  fmt::print("Peak of reserved over peak of used bytes, {} events in flight\n{:44} {:>5}", lag, "", "jobs");
  for (const AllocatorModel& model : models) fmt::print(" {:>18}", model.name);
  fmt::print("\n");
  int worse = 0, far_worse = 0, worse_than_expandable = 0, cases = 0;
  double logarithms = 0, expandable_logarithms = 0;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().string().ends_with(".events.csv.gz")) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const auto& file : files) {
    const Result<Trace> trace = ReadTrace(file.string());
    if (!trace) return fmt::print("{}\n", trace.error().message), -1;
    for (const std::size_t count : {1, 2, 4, 8}) {
      for (const bool shifted : {false, true}) {
        if (shifted && count == 1) continue;
        std::string name = file.filename().string();
        name = name.substr(0, name.find('.'));
        fmt::print("{:44} {:>5}", name, fmt::format("{}{}", count, shifted ? "s" : ""));
        Bytes best = kTooLarge, expandable = 0, tide = 0;
        for (const AllocatorModel& model : models) {
          Bytes reserved = 0;
          const double overhead = Overhead(model, *trace, count, shifted, lag, reserved);
          fmt::print(" {:18.3f}", overhead);
          std::fflush(stdout);
          if (model.name == "pytorch" || model.name == "cuda-malloc-async" || model.name == "rmm")
            best = std::min(best, reserved);
          if (model.name == "pytorch-expandable") {
            expandable = reserved;
            expandable_logarithms += std::log(overhead);
          }
          if (model.name != "tide") continue;
          tide = reserved;
          logarithms += std::log(overhead);
        }
        ++cases;
        worse += tide > best;
        far_worse += tide > best + best / kMostOver;
        worse_than_expandable += tide > expandable;
        fmt::print(" {}\n", tide > best ? "more" : "");
      }
    }
  }
  fmt::print("{} in flight: tide takes more than the least of pytorch, cuda-malloc-async and rmm in {} of {} cases\n",
             lag, worse, cases);
  fmt::print("more than pytorch-expandable in {}; geometric mean of tide {:.3f}, of pytorch-expandable {:.3f}\n\n",
             worse_than_expandable, std::exp(logarithms / std::max(cases, 1)),
             std::exp(expandable_logarithms / std::max(cases, 1)));
  return far_worse;
}

int Run(const std::vector<std::size_t>& lags) {
  const std::filesystem::path folder = DataFolder() / "torch-traces";
  if (!std::filesystem::is_directory(folder)) {
    return fmt::print("left out, {} is not there; EBBTIDE_DATA names the folder of the data\n", folder.string()), 0;
  }
  int worse = 0;
  for (const std::size_t lag : lags) {
    const int found = Compare(folder, lag);
    if (found < 0) return 2;
    worse += found;
  }
  return worse > 0 ? 1 : 0;
}

}  // namespace
}  // namespace ebbtide::trace

int main(int argc, char** argv) {
  std::vector<std::size_t> lags;
  for (int i = 1; i < argc; ++i) lags.push_back(std::stoul(argv[i]));
  return ebbtide::trace::Run(lags.empty() ? std::vector<std::size_t>{0, 64, 1024} : lags);
}
