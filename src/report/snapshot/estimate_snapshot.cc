// A prediction as torch.cuda.memory._dump_snapshot would have written it: the requests of the timeline go through the
// allocator once more, on the GPU itself, and what it does is written down. docs/replay.md says what the fields hold.
#include "report/snapshot/estimate_snapshot.h"

#include <algorithm>
#include <map>

#include "report/snapshot/pickle_writer.h"

namespace ebbtide::report {
namespace {

using estimate::TimedRequest;

struct Event {
  const char* action = "";
  alloc::Address address = 0;  // of an "oom": what is free
  Bytes bytes = 0;
  std::int64_t time = 0;
  std::size_t request = 0;  // on whose behalf
};

struct LiveBlock {
  Bytes bytes = 0;
  std::size_t request = 0;
};

// Where each event begins an iteration: the number of the one that it is in, from 1; 0 before the first.
std::int64_t IterationAt(const estimate::Timeline& timeline, std::int64_t event) {
  const auto after = std::upper_bound(timeline.iterations.begin(), timeline.iterations.end(), event);
  return after - timeline.iterations.begin();
}

class History : public alloc::Observer {
 public:
  History(const jobs::EstimateResult& prediction, const alloc::AllocatorChoice& allocator)
      : timeline_(prediction.estimate.timeline),
        device_({.total = prediction.estimate.capacity,
                 .taken = prediction.estimate.context + prediction.estimate.loaded_code}),
        allocator_(alloc::MakeAllocator(allocator, device_, streams_)) {
    allocator_->Observe(this);
  }

  // In the order of the timeline, to its end or to the first request that fails.
  void Run() {
    std::vector<std::int64_t> order;  // a request, or the end of one: its complement
    order.reserve(2 * timeline_.requests.size());
    for (std::size_t i = 0; i < timeline_.requests.size(); ++i) {
      if (timeline_.requests[i].request.bytes == 0) continue;
      order.push_back(static_cast<std::int64_t>(i));
      if (timeline_.requests[i].end < timeline_.events) order.push_back(~static_cast<std::int64_t>(i));
    }
    const auto time_of = [&](std::int64_t entry) {
      return entry >= 0 ? timeline_.requests[static_cast<std::size_t>(entry)].begin
                        : timeline_.requests[static_cast<std::size_t>(~entry)].end;
    };
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return time_of(a) < time_of(b); });
    blocks_.resize(timeline_.requests.size());
    for (const std::int64_t entry : order) {
      now_ = time_of(entry);
      if (entry < 0) {
        Free(static_cast<std::size_t>(~entry));
      } else if (!Allocate(static_cast<std::size_t>(entry))) {
        return;
      }
    }
  }

  void OnTake(const alloc::DeviceRange& range) override {
    Add(range.pages ? "segment_map" : "segment_alloc", range.address, range.bytes);
    auto [segment, is_new] = segments_.emplace(range.address, range);
    // Pages next to each other are one segment, as torch lists them.
    if (range.pages && segment != segments_.begin())
      segment = JoinWithNext(std::prev(segment)) ? FindAt(range) : segment;
    if (range.pages) JoinWithNext(segment);
  }

  void OnGive(const alloc::DeviceRange& range) override {
    Add(range.pages ? "segment_unmap" : "segment_free", range.address, range.bytes);
    const auto found = FindAt(range);
    const alloc::DeviceRange whole = found->second;
    segments_.erase(found);
    const alloc::Address end = range.address + static_cast<alloc::Address>(range.bytes);
    const auto keep = [&](alloc::Address from, alloc::Address to) {
      if (from >= to) return;
      alloc::DeviceRange rest = whole;
      rest.address = from;
      rest.bytes = static_cast<Bytes>(to - from);
      segments_.emplace(from, rest);
    };
    keep(whole.address, range.address);
    keep(end, whole.address + static_cast<alloc::Address>(whole.bytes));
  }

  const std::vector<Event>& events() const { return events_; }
  const std::map<alloc::Address, alloc::DeviceRange>& segments() const { return segments_; }
  const std::map<alloc::Address, LiveBlock>& live() const { return live_; }

 private:
  using Segments = std::map<alloc::Address, alloc::DeviceRange>;

  void Add(const char* action, alloc::Address address, Bytes bytes) {
    events_.push_back({action, address, bytes, now_, request_});
  }

  bool Allocate(std::size_t i) {
    request_ = i;
    const Bytes bytes = timeline_.requests[i].request.bytes;
    const auto block = allocator_->Allocate(bytes, alloc::StreamId(0));
    if (!block) {
      Add("oom", static_cast<alloc::Address>(device_.capacity() - device_.used()), bytes);
      return false;
    }
    Add("alloc", block->address, bytes);
    blocks_[i] = *block;
    live_.emplace(block->address, LiveBlock{block->bytes, i});
    return true;
  }

  void Free(std::size_t i) {
    request_ = i;
    const alloc::Block& block = blocks_[i];
    const Bytes bytes = timeline_.requests[i].request.bytes;
    Add("free_requested", block.address, bytes);
    Add("free_completed", block.address, bytes);
    live_.erase(block.address);
    allocator_->Free(block.id);
  }

  // The segment that holds the address.
  Segments::iterator FindAt(const alloc::DeviceRange& range) { return std::prev(segments_.upper_bound(range.address)); }

  bool JoinWithNext(Segments::iterator segment) {
    const auto next = std::next(segment);
    if (next == segments_.end() || !segment->second.pages || !next->second.pages) return false;
    if (segment->first + static_cast<alloc::Address>(segment->second.bytes) != next->first) return false;
    segment->second.bytes += next->second.bytes;
    segments_.erase(next);
    return true;
  }

  const estimate::Timeline& timeline_;
  alloc::DeviceMemory device_;
  alloc::Streams streams_;
  std::unique_ptr<alloc::Allocator> allocator_;
  std::vector<alloc::Block> blocks_;  // by request
  std::vector<Event> events_;
  Segments segments_;
  std::map<alloc::Address, LiveBlock> live_;
  std::int64_t now_ = 0;
  std::size_t request_ = 0;
};

const char* NameOf(Phase phase) {
  switch (phase) {
    case Phase::kForward: return "forward";
    case Phase::kBackward: return "backward";
    case Phase::kUpdate: return "update";
  }
  return "";
}

// Models place memory below 2^56; torch's page in the browser counts in doubles, and drivers stay below 2^47.
alloc::Address BaseOf(const std::vector<Event>& events) {
  constexpr alloc::Address kBase = (alloc::Address{1} << 56) - (alloc::Address{1} << 47);
  const auto is_below = [](const Event& event) {
    return event.address < kBase && std::string_view(event.action) != "oom";
  };
  return std::none_of(events.begin(), events.end(), is_below) ? kBase : 0;
}

class SnapshotText {
 public:
  SnapshotText(const jobs::EstimateResult& prediction, const History& history)
      : prediction_(prediction), history_(history), base_(BaseOf(history.events())) {}

  std::string Write(bool expandable) && {
    out_.BeginDict();
    out_.Text("segments");
    out_.BeginList();
    std::size_t written = 0;
    for (const auto& [address, segment] : history_.segments()) {
      Segment(segment);
      if (++written % PickleWriter::kBatch == 0) out_.ContinueList();
    }
    out_.EndList();
    out_.Text("device_traces");
    out_.BeginList();
    out_.BeginList();
    written = 0;
    for (const Event& event : history_.events()) {
      Entry(event);
      if (++written % PickleWriter::kBatch == 0) out_.ContinueList();
    }
    out_.EndList();
    out_.EndList();
    out_.Text("allocator_settings");
    out_.BeginDict();
    out_.Text("expandable_segments");
    out_.Bool(expandable);
    out_.EndDict();
    out_.Text("external_annotations");
    out_.BeginList();
    out_.EndList();
    out_.EndDict();
    return std::move(out_).Finish();
  }

 private:
  void Entry(const Event& event) {
    const bool is_oom = std::string_view(event.action) == "oom";
    out_.BeginDict();
    out_.Entry("action", event.action);
    out_.Entry(is_oom ? "device_free" : "addr",
               is_oom ? static_cast<std::int64_t>(event.address) : Shown(event.address));
    out_.Entry("size", event.bytes);
    out_.Entry("stream", 0);
    out_.Entry("time_us", event.time);
    out_.Entry("compile_context", "N/A");
    out_.Entry("user_metadata", jobs::CategoryName(Timed(event.request).request.category));
    DefaultPool("pool_id");
    Frames(event.request);
    out_.EndDict();
  }

  void Segment(const alloc::DeviceRange& segment) {
    const alloc::Address end = segment.address + static_cast<alloc::Address>(segment.bytes);
    const auto begin = history_.live().lower_bound(segment.address), after = history_.live().lower_bound(end);
    Bytes allocated = 0, requested = 0;
    for (auto block = begin; block != after; ++block) {
      allocated += block->second.bytes;
      requested += Timed(block->second.request).request.bytes;
    }
    out_.BeginDict();
    out_.Entry("device", 0);
    out_.Entry("address", Shown(segment.address));
    out_.Entry("total_size", segment.bytes);
    out_.Entry("allocated_size", allocated);
    out_.Entry("active_size", allocated);
    out_.Entry("requested_size", requested);
    out_.Entry("stream", 0);
    out_.Entry("segment_type", segment.small ? "small" : "large");
    DefaultPool("segment_pool_id");
    out_.Text("is_expandable");
    out_.Bool(segment.pages);
    NoFrames();
    out_.Text("blocks");
    out_.BeginList();
    alloc::Address filled = segment.address;
    const auto free_up_to = [&](alloc::Address to) {
      if (to > filled) Block(filled, static_cast<Bytes>(to - filled), nullptr);
    };
    std::size_t written = 0;
    for (auto block = begin; block != after; ++block) {
      if (++written % PickleWriter::kBatch == 0) out_.ContinueList();
      free_up_to(block->first);
      Block(block->first, block->second.bytes, &block->second);
      filled = block->first + static_cast<alloc::Address>(block->second.bytes);
    }
    free_up_to(end);
    out_.EndList();
    out_.EndDict();
  }

  void Block(alloc::Address address, Bytes bytes, const LiveBlock* live) {
    out_.BeginDict();
    out_.Entry("address", Shown(address));
    out_.Entry("size", bytes);
    out_.Entry("requested_size", live != nullptr ? Timed(live->request).request.bytes : 0);
    out_.Entry("state", live != nullptr ? "active_allocated" : "inactive");
    live != nullptr ? Frames(live->request) : NoFrames();
    out_.EndDict();
  }

  std::int64_t Shown(alloc::Address address) const { return static_cast<std::int64_t>(address - base_); }

  const TimedRequest& Timed(std::size_t request) const { return prediction_.estimate.timeline.requests[request]; }

  void DefaultPool(std::string_view key) {
    out_.Text(key);
    if (pool_ >= 0) return out_.Recall(pool_);
    out_.Integer(0);
    out_.Integer(0);
    out_.EndPair();
    pool_ = out_.Remember();
  }

  void NoFrames() {
    out_.Text("frames");
    out_.BeginList();
    out_.EndList();
  }

  void Frame(std::string_view file, std::string_view name, std::int64_t line) {
    out_.BeginDict();
    out_.Entry("filename", file);
    out_.Entry("name", name);
    out_.Entry("line", line);
    out_.EndDict();
  }

  // A stack, innermost first: what is asked for, the op, the modules around it from the inside out, the phase, the
  // iteration. Equal stacks are written once.
  void Frames(std::size_t number) {
    const TimedRequest& timed = Timed(number);
    const estimate::Request& request = timed.request;
    const TrainingGraph& graph = *prediction_.graph;
    out_.Text("frames");
    const std::int64_t iteration = IterationAt(prediction_.estimate.timeline, timed.begin);
    const auto key = std::tuple(request.op.value, request.storage.value, iteration);
    if (const auto known = stacks_.find(key); known != stacks_.end()) return out_.Recall(known->second);
    out_.BeginList();
    if (request.storage.valid() && !graph.storage(request.storage).name.empty()) {
      Frame(graph.storage(request.storage).name, jobs::CategoryName(request.category), 0);
    } else if (!request.storage.valid()) {
      Frame(request.op.valid() ? graph.op(request.op).kind : "library", jobs::CategoryName(request.category), 0);
    }
    if (request.op.valid()) {
      const Op& op = graph.op(request.op);
      Frame(op.layer.empty() ? "step" : op.layer, op.kind, request.op.value);
      for (std::size_t dot = op.layer.rfind('.'); dot != std::string::npos && dot > 0;
           dot = op.layer.rfind('.', dot - 1)) {
        Frame(op.layer.substr(0, dot), "module", 0);
      }
      Frame(graph.name, NameOf(op.phase), 0);
    }
    Frame(graph.name, iteration > 0 ? "iteration" : "start", iteration);
    out_.EndList();
    stacks_.emplace(key, out_.Remember());
  }

  const jobs::EstimateResult& prediction_;
  const History& history_;
  const alloc::Address base_;
  PickleWriter out_;
  std::int64_t pool_ = -1;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int64_t>, std::int64_t> stacks_;
};

}  // namespace

std::string EstimateSnapshot(const jobs::EstimateResult& prediction) {
  const alloc::AllocatorChoice& allocator = prediction.options.allocator;
  History history(prediction, allocator);
  history.Run();
  return SnapshotText(prediction, history).Write(allocator.pytorch.expandable_segments);
}

}  // namespace ebbtide::report
