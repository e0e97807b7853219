// Drives an allocator with the events of a trace.
#include "trace/replay.h"

#include <algorithm>
#include <unordered_map>

#include "tide/model.h"

namespace ebbtide::trace {
namespace {

class Replayer {
 public:
  Replayer(const Trace& trace, alloc::Allocator& allocator, alloc::DeviceMemory& device, alloc::Streams& streams,
           const ReplayOptions& options)
      : trace_(trace), allocator_(allocator), device_(device), streams_(streams), options_(options) {}

  Result<Replayed> Run() {
    EBB_RETURN_IF_ERROR(Begin());
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      if (i % kEventsPerQuestion == 0 && options_.stop && options_.stop()) {
        return FailAs(ErrorKind::kStopped, "{}: stopped at {} {}", trace_.path, trace_.place_name,
                      trace_.events[i].place);
      }
      if (!Step(i)) break;
      result_.allocated.push_back(allocator_.usage().allocated);
      result_.reserved.push_back(allocator_.usage().reserved);
    }
    result_.usage = allocator_.usage();
    result_.usage.device_allocations -= initial_allocations_;
    result_.segments.assign(device_.log().begin() + static_cast<std::ptrdiff_t>(initial_log_), device_.log().end());
    if (result_.recorded) Compare(*result_.recorded);
    return std::move(result_);
  }

 private:
  static constexpr alloc::BlockId kNoMemory{};
  static constexpr std::size_t kEventsPerQuestion = 256;  // whether to stop

  Status Begin() {
    blocks_.resize(static_cast<std::size_t>(trace_.blocks), kNoMemory);
    requested_.resize(blocks_.size(), 0);
    next_extra_stream_ = trace_.streams.size();
    if (trace_.records_segments) result_.recorded.emplace();
    for (const InitialSegment& segment : trace_.segments) recorded_reserved_ += segment.bytes;
    device_.KeepLog();
    if (options_.recorded_placement && trace_.records_addresses) {
      for (const TraceEvent& event : trace_.events) {
        if (event.action == Action::kSegmentTaken && event.address != 0) {
          device_.ExpectPlacement(event.bytes, event.address);
        }
      }
    }
    const auto ids = allocator_.Restore(trace_.segments);
    if (!ids) {
      return Fail("{}: the state it begins with, {} in segments, does not fit the device of {}", trace_.path,
                  FormatBytes(recorded_reserved_), FormatBytes(device_.capacity()));
    }
    std::copy(ids->begin(), ids->end(), blocks_.begin());
    std::size_t block = 0;
    for (const InitialSegment& segment : trace_.segments) {
      for (const InitialBlock& piece : segment.blocks) {
        if (piece.allocated) Request(block++, piece.requested);
      }
    }
    result_.initial_reserved = allocator_.usage().reserved;
    initial_allocations_ = allocator_.usage().device_allocations;
    initial_log_ = device_.log().size();
    if (result_.recorded) result_.recorded->reserved_peak = recorded_reserved_;
    return {};
  }

  void Request(std::size_t block, Bytes bytes) {
    requested_[block] = bytes;
    requested_now_ += bytes;
    result_.requested_peak = std::max(result_.requested_peak, requested_now_);
  }

  // False: the replay ends here.
  bool Step(std::size_t i) {
    const TraceEvent& event = trace_.events[i];
    const std::size_t block = static_cast<std::size_t>(event.block);
    switch (event.action) {
      case Action::kAllocate: return AllocateBlock(i, block);
      case Action::kFree: FreeBlock(block); break;
      case Action::kFreeRequested: LeaveBlock(block); break;
      case Action::kFreeCompleted:
        if (const auto found = leaving_.find(event.block); found != leaving_.end()) {
          streams_.Finish(found->second);
          extra_streams_.push_back(found->second.stream);
          leaving_.erase(found);
        }
        break;
      case Action::kRecordStream:
        if (blocks_[block].valid()) allocator_.RecordStream(blocks_[block], event.stream);
        break;
      case Action::kWork: streams_.Submit(event.stream); break;
      case Action::kSynchronize:
        if (event.stream.valid()) {
          streams_.Finish(streams_.Record(event.stream));
        } else {
          streams_.FinishAll();
        }
        break;
      case Action::kEmptyCache: allocator_.EmptyCache(); break;
      case Action::kSegmentTaken: RecordSegment(event, event.bytes); break;
      case Action::kSegmentGiven:
        if ((i == 0 || trace_.events[i - 1].action != Action::kSegmentGiven) && IsTheProgramsDoing(i)) {
          allocator_.EmptyCache();
        }
        RecordSegment(event, -event.bytes);
        break;
      case Action::kOutOfMemory:
        if (result_.recorded) result_.recorded->out_of_memory = true;
        break;
    }
    return true;
  }

  void RecordSegment(const TraceEvent& event, Bytes change) {
    recorded_reserved_ += change;
    RecordedDevice& recorded = *result_.recorded;
    recorded.reserved_peak = std::max(recorded.reserved_peak, recorded_reserved_);
    if (event.action == Action::kSegmentTaken) recorded.segments.push_back(event.bytes);
  }

  bool AllocateBlock(std::size_t i, std::size_t block) {
    const TraceEvent& event = trace_.events[i];
    if (event.bytes == 0) return true;  // frameworks do not ask their allocators for nothing
    const std::optional<alloc::Block> got = allocator_.Allocate(event.bytes, event.stream);
    if (got) {
      blocks_[block] = got->id;
      Request(block, event.bytes);
      return true;
    }
    if (!result_.out_of_memory) result_.failed_event = static_cast<std::int64_t>(i);
    result_.out_of_memory = true;
    return options_.keep_going;
  }

  void FreeBlock(std::size_t block) {
    if (!blocks_[block].valid()) return;
    allocator_.Free(blocks_[block]);
    requested_now_ -= requested_[block];
  }

  // Which streams still use the block was not recorded, only when they were done: a stream of its own stands for them.
  void LeaveBlock(std::size_t block) {
    if (!blocks_[block].valid()) return;
    StreamId stream(next_extra_stream_);
    if (extra_streams_.empty()) {
      ++next_extra_stream_;
    } else {
      stream = extra_streams_.back();
      extra_streams_.pop_back();
    }
    allocator_.RecordStream(blocks_[block], stream);
    streams_.Submit(stream);
    leaving_.emplace(static_cast<std::int32_t>(block), streams_.Record(stream));
    FreeBlock(block);
  }

  // A run of segments goes back. An allocator does that by itself only when the next segment would not fit.
  bool IsTheProgramsDoing(std::size_t i) const {
    if (!options_.releases_are_the_programs) return false;
    while (i < trace_.events.size() && trace_.events[i].action == Action::kSegmentGiven) ++i;
    if (i == trace_.events.size()) return true;
    const TraceEvent& next = trace_.events[i];
    const bool wants_memory = next.action == Action::kSegmentTaken || next.action == Action::kOutOfMemory;
    return !wants_memory || recorded_reserved_ + next.bytes <= device_.capacity();
  }

  void Compare(RecordedDevice& recorded) const {
    const std::size_t common = std::min(recorded.segments.size(), result_.segments.size());
    for (std::size_t i = 0; i < common; ++i) recorded.equal_segments += recorded.segments[i] == result_.segments[i];
  }

  const Trace& trace_;
  alloc::Allocator& allocator_;
  alloc::DeviceMemory& device_;
  alloc::Streams& streams_;
  const ReplayOptions options_;
  Replayed result_;
  std::vector<alloc::BlockId> blocks_;  // by number in the trace
  std::vector<Bytes> requested_;        // likewise
  Bytes requested_now_ = 0;
  Bytes recorded_reserved_ = 0;
  std::int64_t initial_allocations_ = 0;
  std::size_t initial_log_ = 0;
  std::unordered_map<std::int32_t, alloc::Event> leaving_;
  std::vector<StreamId> extra_streams_;  // that no block uses now
  std::size_t next_extra_stream_ = 0;
};

}  // namespace

const std::vector<alloc::AllocatorModel>& ReplayModels() {
  static const std::vector<alloc::AllocatorModel> models = [] {
    std::vector<alloc::AllocatorModel> all = alloc::AllocatorModels();
    all.push_back(tide::Model());
    return all;
  }();
  return models;
}

Result<Replayed> Replay(const Trace& trace, alloc::Allocator& allocator, alloc::DeviceMemory& device,
                        alloc::Streams& streams, const ReplayOptions& options) {
  return Replayer(trace, allocator, device, streams, options).Run();
}

}  // namespace ebbtide::trace
