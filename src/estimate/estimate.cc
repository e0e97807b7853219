// Runs a training of the graph's framework through an allocator and keeps its peaks. A job that does not fit runs again
// on a device without a limit.
#include "estimate/estimate.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "device/collectives.h"
#include "device/context_range.h"
#include "device/runtime.h"
#include "estimate/mxnet_plan.h"
#include "estimate/mxnet_training.h"
#include "estimate/tensorflow_training.h"

namespace ebbtide::estimate {
namespace {

constexpr std::size_t kStreams = static_cast<std::size_t>(Stream::kReduce) + 1;

alloc::StreamId StreamIdOf(Stream stream) { return alloc::StreamId(static_cast<std::size_t>(stream)); }

bool IsPassing(Category category) { return category == Category::kActivation || category == Category::kTemporary; }

// Passes a training's requests on to an allocator and notes its peaks.
class Meter : public Sink {
 public:
  // `kept_free`: what the framework does not touch. `communication`: what NCCL takes.
  Meter(const Options& options, Bytes capacity, Bytes kept_free, Bytes communication)
      : device_({.total = capacity, .taken = options.gpu.context + kLoadedCode + communication + kept_free}),
        allocator_(alloc::MakeAllocator(options.allocator, device_, streams_)),
        keeps_timeline_(options.keep_timeline) {}

  void BeginIteration(std::int64_t iteration) override {
    now_.iteration = iteration;
    timeline_.iterations.push_back(timeline_.events);
  }

  bool Allocate(const Request& request) override {
    Entry entry;
    now_.op = request.op;
    if (request.bytes > 0) {
      const std::optional<alloc::Block> block = allocator_->Allocate(request.bytes, StreamIdOf(request.stream));
      ran_out_ = ran_out_ || !block;
      if (!block) return false;
      entry = {block->id, block->bytes, request.bytes, request.category};
      Bytes& largest = largest_passing_[static_cast<std::size_t>(request.stream)];
      if (IsPassing(request.category)) largest = std::max(largest, block->bytes);
      Count(entry, 1);
      NotePeaks();
    }
    if (keeps_timeline_) timeline_.requests.push_back({request, timeline_.events, -1});
    entries_.push_back(entry);
    Tick();
    return true;
  }

  void Free(RequestId id) override {
    const Entry& entry = entries_[id.index()];
    if (entry.block.valid()) {
      allocator_->Free(entry.block);
      Count(entry, -1);
    }
    if (keeps_timeline_) timeline_.requests[id.index()].end = timeline_.events;
    Tick();
  }

  void Try(Bytes bytes, OpId op, From from) override {
    now_.op = op;
    Entry entry = {.block = {}, .bytes = bytes, .requested = bytes, .category = Category::kWorkspace};
    if (from == From::kDevice) {
      if (!device_.Take(bytes)) return;
      Count(entry, 1);
      NotePeaks(bytes);
      device_.Give(bytes);
    } else {
      const std::optional<alloc::Block> block = allocator_->Allocate(bytes, alloc::StreamId(0));
      if (!block) return;
      entry.bytes = block->bytes;
      Count(entry, 1);
      NotePeaks();
      allocator_->Free(block->id);
    }
    Tick();
    Count(entry, -1);
  }

  void EmptyCache() override {
    allocator_->EmptyCache();
    Tick();
  }

  Estimate Finish() {
    Estimate result;
    const alloc::Usage& usage = allocator_->usage();
    result.peak_reserved = std::max(usage.reserved_peak, peak_reserved_);
    result.peak_allocated = std::max(usage.allocated_peak, peak_allocated_);
    result.end_allocated = allocated_;
    result.largest_passing_blocks = std::accumulate(largest_passing_.begin(), largest_passing_.end(), Bytes{0});
    result.device_allocations = usage.device_allocations;
    result.at_peak = at_peak_;
    result.at_allocated_peak = at_allocated_peak_;
    for (TimedRequest& request : timeline_.requests) {
      if (request.end < 0) request.end = timeline_.events;
    }
    result.timeline = std::move(timeline_);
    return result;
  }

  bool ran_out() const { return ran_out_; }

 private:
  struct Entry {
    alloc::BlockId block;
    Bytes bytes = 0, requested = 0;
    Category category = Category::kTemporary;
  };

  void Count(const Entry& entry, int sign) {
    now_.by_category[static_cast<std::size_t>(entry.category)] += sign * entry.requested;
    now_.rounding += sign * (entry.bytes - entry.requested);
    allocated_ += sign * entry.bytes;
  }

  // `beside`: taken past the allocator.
  void NotePeaks(Bytes beside = 0) {
    const Bytes reserved = allocator_->usage().reserved + beside;
    now_.cached = reserved - allocated_;
    if (reserved > peak_reserved_) {
      peak_reserved_ = reserved;
      at_peak_ = now_;
    }
    if (allocated_ > peak_allocated_) {
      peak_allocated_ = allocated_;
      at_allocated_peak_ = now_;
    }
  }

  void Tick() {
    if (keeps_timeline_) {
      const Bytes reserved = allocator_->usage().reserved;
      if (timeline_.reserved.empty() || timeline_.reserved.back().reserved != reserved) {
        timeline_.reserved.push_back({timeline_.events, reserved});
      }
    }
    ++timeline_.events;
  }

  alloc::DeviceMemory device_;
  alloc::Streams streams_;
  std::unique_ptr<alloc::Allocator> allocator_;
  const bool keeps_timeline_;
  bool ran_out_ = false;
  std::vector<Entry> entries_;
  Moment now_, at_peak_, at_allocated_peak_;
  Bytes allocated_ = 0, peak_reserved_ = 0, peak_allocated_ = 0;
  std::array<Bytes, kStreams> largest_passing_{};  // by stream
  Timeline timeline_;
};

// NCCL's buffers for all groups that talk in a step, and for all ranks that are spoken to alone.
Bytes CommunicationOf(const TrainingGraph& graph, const DeviceProfile& gpu) {
  std::set<RankGroup> groups, connections;
  for (const Op& op : graph.ops) {
    if (IsCollective(op)) (IsPointToPoint(op) ? connections : groups).insert(GroupOf(op));
  }
  const int channels = NcclChannels(gpu);
  Bytes bytes = static_cast<Bytes>(connections.size()) * NcclConnectionBuffers(channels);
  for (const RankGroup& group : groups) bytes += NcclGroupBuffers(group.ranks, channels);
  return bytes;
}

}  // namespace

Bytes Moment::requested() const { return std::accumulate(by_category.begin(), by_category.end(), Bytes{0}); }

Estimate EstimateTraining(const TrainingGraph& graph, const Options& options) {
  const bool is_tensorflow = graph.framework == Framework::kTensorflow;
  const Bytes communication = CommunicationOf(graph, options.gpu);
  const auto run = [&](const Options& options, Bytes capacity, bool& ran_out) {
    Meter meter(options, capacity, is_tensorflow ? TensorflowSystemReserve(options.gpu) : 0, communication);
    if (is_tensorflow) {
      RunTensorflowTraining(graph, options.gpu, options.training, meter);
    } else if (graph.framework == Framework::kMxnet) {
      RunMxnetTraining(graph, options.gpu, options.training, meter);
    } else {
      RunTraining(graph, options.gpu, options.training, meter);
    }
    ran_out = meter.ran_out();
    return meter.Finish();
  };
  bool ran_out = false;
  Estimate result = run(options, options.gpu.memory, ran_out);
  const bool fits = !ran_out;
  if (!fits) {
    Options roomy = options;
    // It would take all of any device.
    if (roomy.allocator.model.name == "bfc") roomy.allocator = *alloc::ChooseAllocator("bfc-growth", "");
    result = run(roomy, kTooLarge, ran_out);
  }
  result.fits = fits;
  result.context = options.gpu.context;
  result.context_margin = ContextRangeOf(options.gpu).most - options.gpu.context;
  result.loaded_code = kLoadedCode;
  result.communication = communication;
  result.capacity = options.gpu.memory;
  return result;
}

}  // namespace ebbtide::estimate
