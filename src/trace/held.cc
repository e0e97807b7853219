// Goes from a snapshot's end back to the moment in question, block by block and segment by segment.
#include "trace/held.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "trace/pickle.h"

namespace ebbtide::trace {
namespace {

using Type = Pickle::Type;
using Address = std::uint64_t;

constexpr Bytes kGranule = 512;               // torch rounds what it is asked for up to this
constexpr Bytes kMostBytes = Bytes{1} << 44;  // of one block or segment: more than any device has
constexpr Bytes kMostInAll = Bytes{1} << 61;  // of all that a file tells of, so that sums stay exact

Bytes Rounded(Bytes requested) { return (std::max<Bytes>(requested, 1) + kGranule - 1) / kGranule * kGranule; }

class HeldReader {
 public:
  HeldReader(const Pickle& pickle, const std::string& path, std::int64_t device)
      : in_(pickle), path_(path), device_(device) {}

  Result<HeldMemory> Read() {
    const Pickle::Value traces = in_.Find(in_.root(), "device_traces");
    const Pickle::Value segments = in_.Find(in_.root(), "segments");
    if (!in_.Is(traces, Type::kList) || !in_.Is(segments, Type::kList)) {
      return Fail("{}: expected a snapshot of torch.cuda.memory._dump_snapshot, with segments and device_traces",
                  path_);
    }
    EBB_RETURN_IF_ERROR(ReadHistory(traces, segments));
    EBB_RETURN_IF_ERROR(ReadSegments(segments));
    if (in_all_ >= kMostInAll) return Fail("{}: more bytes in all than can be counted", path_);
    ChooseMoment();
    GoBack();
    Count();
    return std::move(out_);
  }

 private:
  enum class Kind : std::uint8_t { kAlloc, kFree, kSegmentTaken, kSegmentGiven, kMapped, kUnmapped, kFailed, kOther };
  struct Entry {
    Kind kind = Kind::kOther;
    Address address = 0;
    Bytes bytes = 0;
    std::int64_t allocation = -1;  // of kAlloc and kFree
  };
  struct Segment {
    Bytes bytes = 0;
    bool expandable = false;
  };

  Result<std::int64_t> Integer(Pickle::Value dict, std::string_view key, const std::string& place) const {
    const Pickle::Value value = in_.Find(dict, key);
    if (!in_.Is(value, Type::kInteger) || in_.integer(value) < 0) {
      return Fail("{}: {}: expected {}, a number from 0 on", path_, place, key);
    }
    return in_.integer(value);
  }
  Result<Bytes> Size(Pickle::Value dict, std::string_view key, const std::string& place) {
    EBB_ASSIGN_OR_RETURN(const Bytes bytes, Integer(dict, key, place));
    if (bytes > kMostBytes) return Fail("{}: {}: {} {} is more than any device has", path_, place, key, bytes);
    in_all_ = std::min(in_all_ + bytes + kGranule, kMostInAll);
    return bytes;
  }
  std::int64_t IntegerOr(Pickle::Value dict, std::string_view key, std::int64_t otherwise) const {
    const Pickle::Value value = in_.Find(dict, key);
    return in_.Is(value, Type::kInteger) ? in_.integer(value) : otherwise;
  }

  // Stacks that the file holds once are held once. Whatever has another form than torch's is left out of a stack.
  std::int32_t StackOf(Pickle::Value dict) {
    const Pickle::Value frames = in_.Find(dict, "frames");
    if (!in_.Is(frames, Type::kList)) return kNoStack;
    const auto [known, is_new] = stacks_.try_emplace(frames, static_cast<std::int32_t>(out_.stacks.size()));
    if (!is_new) return known->second;
    Stack& stack = out_.stacks.emplace_back();
    for (auto item = in_.First(frames); item != Pickle::kMissing; item = in_.Next(item)) {
      const Pickle::Value file = in_.Find(in_.At(item), "filename"), name = in_.Find(in_.At(item), "name");
      if (!in_.Is(file, Type::kText) || !in_.Is(name, Type::kText)) continue;
      stack.push_back({std::string(in_.text(file)), IntegerOr(in_.At(item), "line", 0), std::string(in_.text(name))});
    }
    return known->second;
  }

  static Kind KindOf(std::string_view action) {
    if (action == "alloc") return Kind::kAlloc;
    if (action == "free_completed") return Kind::kFree;
    if (action == "segment_alloc") return Kind::kSegmentTaken;
    if (action == "segment_free") return Kind::kSegmentGiven;
    if (action == "segment_map") return Kind::kMapped;
    if (action == "segment_unmap") return Kind::kUnmapped;
    return action == "oom" ? Kind::kFailed : Kind::kOther;
  }

  Status ReadHistory(Pickle::Value traces, Pickle::Value segments) {
    std::int64_t number = 0, chosen = -1;
    Pickle::Value history = Pickle::kMissing;
    for (auto item = in_.First(traces); item != Pickle::kMissing; item = in_.Next(item), ++number) {
      if (!in_.Is(in_.At(item), Type::kList)) return Fail("{}: device_traces[{}]: expected a list", path_, number);
      if (device_ < 0 ? in_.size(in_.At(item)) > 0 && chosen < 0 : device_ == number) {
        chosen = number;
        history = in_.At(item);
      }
    }
    if (device_ >= 0 && chosen < 0)
      return Fail("{}: expected device {} or below, found {}", path_, number - 1, device_);
    if (chosen < 0) {
      const auto first = in_.First(segments);
      if (first == Pickle::kMissing) return Fail("{}: neither a history nor a segment: nothing was allocated", path_);
      device_ = IntegerOr(in_.At(first), "device", 0);
      return {};
    }
    device_ = chosen;
    for (auto item = in_.First(history); item != Pickle::kMissing; item = in_.Next(item)) {
      EBB_RETURN_IF_ERROR(ReadEntry(in_.At(item), fmt::format("device_traces[{}][{}]", chosen, entries_.size())));
    }
    out_.entries = static_cast<std::int64_t>(entries_.size());
    return {};
  }

  Status ReadEntry(Pickle::Value value, const std::string& place) {
    const Pickle::Value action = in_.Find(value, "action");
    if (!in_.Is(action, Type::kText)) return Fail("{}: {}: expected action, a text", path_, place);
    Entry entry;
    entry.kind = KindOf(in_.text(action));
    const std::int64_t now = static_cast<std::int64_t>(entries_.size());
    if (entry.kind == Kind::kFailed) {
      EBB_ASSIGN_OR_RETURN(entry.bytes, Size(value, "size", place));
      // torch has the device's free bytes here, under either name; older versions have them in place of an address.
      const std::int64_t free = IntegerOr(value, "device_free", IntegerOr(value, "addr", 0));
      failed_ = FailedRequest{entry.bytes, std::clamp<Bytes>(free, 0, kMostBytes), StackOf(value)};
      failed_at_ = now;
      ++out_.failures;
    } else if (entry.kind != Kind::kOther) {
      EBB_ASSIGN_OR_RETURN(entry.bytes, Size(value, "size", place));
      EBB_ASSIGN_OR_RETURN(const std::int64_t address, Integer(value, "addr", place));
      entry.address = static_cast<Address>(address);
    }
    if (entry.kind == Kind::kAlloc) {
      entry.allocation = New(now, entry.bytes, StackOf(value));
      living_[entry.address] = entry.allocation;
    } else if (entry.kind == Kind::kFree) {
      const auto found = living_.find(entry.address);
      if (found != living_.end()) {
        entry.allocation = found->second;
        living_.erase(found);
      } else {
        entry.allocation = New(kBeforeHistory, entry.bytes, kNoStack);
      }
      out_.allocations[static_cast<std::size_t>(entry.allocation)].freed = now;
    }
    entries_.push_back(entry);
    return {};
  }

  std::int64_t New(std::int64_t made, Bytes requested, std::int32_t stack) {
    out_.allocations.push_back({made, -1, requested, Rounded(requested), stack});
    return static_cast<std::int64_t>(out_.allocations.size()) - 1;
  }

  Status ReadSegments(Pickle::Value segments) {
    std::int64_t number = 0;
    for (auto item = in_.First(segments); item != Pickle::kMissing; item = in_.Next(item), ++number) {
      EBB_RETURN_IF_ERROR(ReadSegment(in_.At(item), fmt::format("segments[{}]", number)));
    }
    return {};
  }

  Status ReadSegment(Pickle::Value value, const std::string& place) {
    if (IntegerOr(value, "device", device_) != device_) return {};
    Segment segment;
    EBB_ASSIGN_OR_RETURN(const std::int64_t address, Integer(value, "address", place));
    EBB_ASSIGN_OR_RETURN(segment.bytes, Size(value, "total_size", place));
    const Pickle::Value expandable = in_.Find(value, "is_expandable");
    segment.expandable = in_.Is(expandable, Type::kBool) && in_.integer(expandable) != 0;
    const Pickle::Value blocks = in_.Find(value, "blocks");
    if (!in_.Is(blocks, Type::kList)) return Fail("{}: {}: expected blocks, a list", path_, place);
    Address at = static_cast<Address>(address);
    Bytes left = segment.bytes;
    std::int64_t number = 0;
    for (auto item = in_.First(blocks); item != Pickle::kMissing; item = in_.Next(item), ++number) {
      const std::string block_place = fmt::format("{}.blocks[{}]", place, number);
      EBB_ASSIGN_OR_RETURN(const Bytes bytes, Size(in_.At(item), "size", block_place));
      if (bytes > left) return Fail("{}: {}: expected blocks within their segment", path_, block_place);
      const Pickle::Value state = in_.Find(in_.At(item), "state");
      if (!in_.Is(state, Type::kText)) return Fail("{}: {}: expected state, a text", path_, block_place);
      if (in_.text(state) != "inactive") AddLiving(in_.At(item), at, bytes);
      at += static_cast<Address>(bytes);
      left -= bytes;
    }
    if (segment.expandable) {
      mapped_ += segment.bytes;
      out_.expandable = true;
    } else {
      segments_[static_cast<Address>(address)] = segment;
    }
    return {};
  }

  // A block that lives at the end: of the history, or from before it, in which case only the segments know its stack.
  void AddLiving(Pickle::Value block, Address address, Bytes bytes) {
    auto found = living_.find(address);
    if (found == living_.end()) {
      const std::int64_t made =
          New(kBeforeHistory, std::clamp<Bytes>(IntegerOr(block, "requested_size", bytes), 0, bytes), StackOf(block));
      found = living_.emplace(address, made).first;
    }
    Allocation& allocation = out_.allocations[static_cast<std::size_t>(found->second)];
    allocation.bytes = bytes;
    if (allocation.stack == kNoStack) allocation.stack = StackOf(block);
    at_end_[address] = found->second;
  }

  void ChooseMoment() {
    if (failed_) {
      out_.moment = failed_at_;
      out_.failed = failed_;
      return;
    }
    // Going back from the end, as the state at the beginning is not in the file.
    Bytes now = 0;
    for (const auto& [address, allocation] : at_end_) now += BytesOf(allocation);
    Bytes most = now;
    out_.moment = out_.entries - 1;
    for (std::int64_t i = out_.entries - 1; i >= 0; --i) {
      const Entry& entry = entries_[static_cast<std::size_t>(i)];
      if (entry.kind == Kind::kAlloc) now -= BytesOf(entry.allocation);
      if (entry.kind == Kind::kFree) now += BytesOf(entry.allocation);
      if (now > most) {
        most = now;
        out_.moment = i - 1;
      }
    }
  }

  // From the end to the moment: what was done after it is undone.
  void GoBack() {
    for (std::int64_t i = out_.entries - 1; i > out_.moment; --i) {
      const Entry& entry = entries_[static_cast<std::size_t>(i)];
      switch (entry.kind) {
        case Kind::kAlloc: at_end_.erase(entry.address); break;
        case Kind::kFree: at_end_[entry.address] = entry.allocation; break;
        case Kind::kSegmentTaken: segments_.erase(entry.address); break;
        case Kind::kSegmentGiven: segments_[entry.address] = {entry.bytes, false}; break;
        case Kind::kMapped: mapped_ = std::max<Bytes>(0, mapped_ - entry.bytes); break;
        case Kind::kUnmapped: mapped_ += entry.bytes; break;
        case Kind::kFailed:
        case Kind::kOther: break;
      }
    }
  }

  void Count() {
    std::map<Address, Bytes> used;  // by segment
    for (const auto& [address, allocation] : at_end_) {
      out_.held.push_back(allocation);
      out_.allocated += BytesOf(allocation);
      const auto after = segments_.upper_bound(address);
      if (after == segments_.begin()) continue;
      const auto& [start, segment] = *std::prev(after);
      if (address - start < static_cast<Address>(segment.bytes)) used[start] += BytesOf(allocation);
    }
    std::sort(out_.held.begin(), out_.held.end());
    out_.reserved = mapped_;
    for (const auto& [address, segment] : segments_) {
      out_.reserved += segment.bytes;
      if (!used.contains(address)) out_.cached += segment.bytes;
    }
    // Sizes of blocks that are gone at the end are rounded by us, not by torch: never more than there was.
    out_.reserved = std::max(out_.reserved, out_.allocated + out_.cached);
  }

  Bytes BytesOf(std::int64_t allocation) const { return out_.allocations[static_cast<std::size_t>(allocation)].bytes; }

  const Pickle& in_;
  const std::string& path_;
  std::int64_t device_;
  HeldMemory out_;
  std::vector<Entry> entries_;
  std::unordered_map<Pickle::Value, std::int32_t> stacks_;
  std::unordered_map<Address, std::int64_t> living_;  // while the history is read: allocations by address
  std::map<Address, std::int64_t> at_end_;            // those that live at the end, later at the moment
  std::map<Address, Segment> segments_;               // likewise, without expandable ones
  Bytes mapped_ = 0;                                  // memory of expandable segments, likewise
  std::optional<FailedRequest> failed_;
  std::int64_t failed_at_ = -1;
  Bytes in_all_ = 0;  // of every size that was read, at most kMostInAll
};

}  // namespace

Result<HeldMemory> ReadHeldMemory(std::string_view content, const std::string& path, std::int64_t device) {
  EBB_ASSIGN_OR_RETURN(const Pickle pickle, Pickle::Parse(content, path));
  return HeldReader(pickle, path, device).Read();
}

}  // namespace ebbtide::trace
