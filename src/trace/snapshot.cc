// torch.cuda.memory._dump_snapshot: the segments at the end, and the history up to there. The state that the history
// began with follows by going through it backwards.
#include <algorithm>
#include <map>

#include "base/json_text.h"
#include "trace/builder.h"
#include "trace/pickle.h"
#include "trace/trace.h"

namespace ebbtide::trace {
namespace {

using Type = Pickle::Type;
constexpr Bytes kSmallSegment = 2 * kMiB;
constexpr Bytes kLeastLargeRest = kMiB;  // what is left of a large block and is not more is not split off

struct Entry {
  std::string_view action;
  Address address = 0;
  Bytes bytes = 0;
  std::string stream;
};

class SnapshotReader {
 public:
  SnapshotReader(const Pickle& pickle, const std::string& path, const TraceOptions& options)
      : in_(pickle), path_(path), options_(options) {}

  Result<Trace> Read() {
    const Pickle::Value traces = in_.Find(in_.root(), "device_traces");
    if (!in_.Is(traces, Type::kList)) {
      return Fail("{}: expected a snapshot of torch.cuda.memory._dump_snapshot, with device_traces", path_);
    }
    EBB_RETURN_IF_ERROR(ReadHistory(traces));
    EBB_RETURN_IF_ERROR(ReadSegments(in_.Find(in_.root(), "segments")));
    EBB_RETURN_IF_ERROR(GoBack());
    TraceBuilder builder(path_, "entry");
    EBB_RETURN_IF_ERROR(AddInitial(builder));
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      EBB_RETURN_IF_ERROR(
          builder.Add(entry.action, entry.address, entry.bytes, entry.stream, static_cast<std::int64_t>(i)));
    }
    return builder.Take();
  }

 private:
  struct Segment {
    Bytes bytes = 0;
    std::string stream;
    bool small = false;
  };
  struct LiveBlock {
    Bytes bytes = 0;  // 0: not known, only what was requested
    Bytes requested = 0;
    std::string stream;
    bool expandable = false;
  };

  // Wrong: the place is a path like segments[3].
  Result<std::int64_t> Integer(Pickle::Value dict, std::string_view key, const std::string& place) const {
    const Pickle::Value value = in_.Find(dict, key);
    if (!in_.Is(value, Type::kInteger) || in_.integer(value) < 0) {
      return Fail("{}: {}: expected {}, a number from 0 on", path_, place, key);
    }
    return in_.integer(value);
  }

  // Blocks of private pools never mix with others: they are as if on streams of their own.
  Result<std::string> Stream(Pickle::Value dict, std::string_view pool_key, const std::string& place) const {
    EBB_ASSIGN_OR_RETURN(const std::int64_t stream, Integer(dict, "stream", place));
    std::string name = std::to_string(stream);
    const Pickle::Value pool = in_.Find(dict, pool_key);
    if (!in_.Is(pool, Type::kTuple)) return name;
    std::string id;
    bool is_default = true;
    for (auto item = in_.First(pool); item != Pickle::kMissing; item = in_.Next(item)) {
      if (!in_.Is(in_.At(item), Type::kInteger)) continue;
      is_default = is_default && in_.integer(in_.At(item)) == 0;
      id += (id.empty() ? "" : ".") + std::to_string(in_.integer(in_.At(item)));
      if (id.size() > 100) break;
    }
    return is_default ? name : name + " of pool " + id;
  }

  Status ReadHistory(Pickle::Value traces) {
    std::int64_t device = 0;
    auto item = in_.First(traces);
    for (; item != Pickle::kMissing; item = in_.Next(item), ++device) {
      if (!in_.Is(in_.At(item), Type::kList)) return Fail("{}: device_traces[{}]: expected a list", path_, device);
      if (options_.device < 0 ? in_.size(in_.At(item)) > 0 : options_.device == device) break;
    }
    if (item == Pickle::kMissing) {
      if (options_.device >= 0)
        return Fail("{}: expected device {} or below, found {}", path_, device - 1, options_.device);
      return Fail("{}: no history: call torch.cuda.memory._record_memory_history() before what is to be recorded",
                  path_);
    }
    device_ = device;
    const Pickle::Value history = in_.At(item);
    entries_.reserve(in_.size(history));
    for (auto entry = in_.First(history); entry != Pickle::kMissing; entry = in_.Next(entry)) {
      EBB_RETURN_IF_ERROR(ReadEntry(in_.At(entry), fmt::format("device_traces[{}][{}]", device, entries_.size())));
    }
    return {};
  }

  Status ReadEntry(Pickle::Value value, const std::string& place) {
    const Pickle::Value action = in_.Find(value, "action");
    if (!in_.Is(action, Type::kText)) return Fail("{}: {}: expected action, a text", path_, place);
    Entry entry;
    entry.action = in_.text(action);
    EBB_ASSIGN_OR_RETURN(entry.bytes, Integer(value, "size", place));
    EBB_ASSIGN_OR_RETURN(entry.stream, Stream(value, "pool_id", place));
    if (entry.action != "oom") {
      EBB_ASSIGN_OR_RETURN(const std::int64_t address, Integer(value, "addr", place));
      entry.address = static_cast<Address>(address);
    }
    entries_.push_back(std::move(entry));
    return {};
  }

  Status ReadSegments(Pickle::Value segments) {
    if (!in_.Is(segments, Type::kList)) return Fail("{}: expected segments, a list", path_);
    std::int64_t number = 0;
    for (auto item = in_.First(segments); item != Pickle::kMissing; item = in_.Next(item), ++number) {
      EBB_RETURN_IF_ERROR(ReadSegment(in_.At(item), fmt::format("segments[{}]", number)));
    }
    return {};
  }

  Status ReadSegment(Pickle::Value value, const std::string& place) {
    const Pickle::Value device = in_.Find(value, "device");
    if (in_.Is(device, Type::kInteger) && in_.integer(device) != device_) return {};
    EBB_ASSIGN_OR_RETURN(const std::int64_t address, Integer(value, "address", place));
    Segment segment;
    EBB_ASSIGN_OR_RETURN(segment.bytes, Integer(value, "total_size", place));
    EBB_ASSIGN_OR_RETURN(segment.stream, Stream(value, "segment_pool_id", place));
    const Pickle::Value type = in_.Find(value, "segment_type");
    segment.small = in_.Is(type, Type::kText) && in_.text(type) == "small";
    const Pickle::Value expandable = in_.Find(value, "is_expandable");
    const bool is_expandable = in_.Is(expandable, Type::kBool) && in_.integer(expandable) != 0;
    const Pickle::Value blocks = in_.Find(value, "blocks");
    if (!in_.Is(blocks, Type::kList)) return Fail("{}: {}: expected blocks, a list", path_, place);
    Address at = static_cast<Address>(address);
    Bytes left = segment.bytes;
    std::int64_t number = 0;
    for (auto item = in_.First(blocks); item != Pickle::kMissing; item = in_.Next(item), ++number) {
      const std::string block_place = fmt::format("{}.blocks[{}]", place, number);
      EBB_ASSIGN_OR_RETURN(const Bytes bytes, Integer(in_.At(item), "size", block_place));
      if (bytes == 0 || bytes > left) return Fail("{}: {}: expected blocks that fill the segment", path_, block_place);
      const Pickle::Value state = in_.Find(in_.At(item), "state");
      if (!in_.Is(state, Type::kText)) return Fail("{}: {}: expected state, a text", path_, block_place);
      if (in_.text(state) != "inactive") {
        const Pickle::Value requested = in_.Find(in_.At(item), "requested_size");
        const Bytes wanted =
            in_.Is(requested, Type::kInteger) ? std::clamp<Bytes>(in_.integer(requested), 0, bytes) : bytes;
        live_.emplace(at, LiveBlock{bytes, wanted, segment.stream, is_expandable});
      }
      at += static_cast<Address>(bytes);
      left -= bytes;
    }
    if (left != 0) return Fail("{}: {}: expected blocks that fill the segment", path_, place);
    if (!is_expandable && !segments_.emplace(static_cast<Address>(address), std::move(segment)).second) {
      return Fail("{}: {}: a second segment at address {}", path_, place, address);
    }
    return {};
  }

  Status GoBack() {
    bool expandable = false;
    for (const Entry& entry : entries_) expandable = expandable || entry.action == "segment_map";
    for (std::size_t i = entries_.size(); i-- > 0;) {
      const Entry& entry = entries_[i];
      const auto missing = [&](std::string_view what) {
        return Fail("{}: entry {}: {} of address {}, where the end of the history has no {}", path_, i, entry.action,
                    entry.address, what);
      };
      if (entry.action == "alloc") {
        if (live_.erase(entry.address) == 0) return missing("block");
      } else if (entry.action == "free_completed") {
        if (!live_.emplace(entry.address, LiveBlock{0, entry.bytes, entry.stream, expandable}).second) {
          return Fail("{}: entry {}: address {} is freed twice", path_, i, entry.address);
        }
      } else if (entry.action == "segment_alloc") {
        if (segments_.erase(entry.address) == 0) return missing("segment");
      } else if (entry.action == "segment_free") {
        segments_.emplace(entry.address, Segment{entry.bytes, entry.stream, entry.bytes == kSmallSegment});
      }
    }
    return {};
  }

  // Fills segments with the blocks that live in them and what is free between. Blocks of expandable segments have
  // segments of their own size.
  Status AddInitial(TraceBuilder& builder) {
    auto block = live_.begin();
    for (const auto& [address, segment] : segments_) {
      EBB_RETURN_IF_ERROR(AddLoose(builder, block, address));
      InitialSegment initial;
      initial.address = address;
      initial.bytes = segment.bytes;
      initial.stream = builder.Stream(segment.stream);
      initial.small = segment.small;
      const Address end = address + static_cast<Address>(segment.bytes);
      Address filled = address;
      const auto free_up_to = [&](Address to) {
        if (to > filled) initial.blocks.push_back({filled, static_cast<Bytes>(to - filled), 0, false});
      };
      for (; block != live_.end() && block->first < end; ++block) {
        const auto next = std::next(block);
        const Bytes room = static_cast<Bytes>((next != live_.end() ? std::min(next->first, end) : end) - block->first);
        const Bytes bytes = SizeOf(block->second, room, segment.small);
        if (block->first < filled || bytes > room) {
          return Fail("{}: the block at address {} overlaps another one", path_, block->first);
        }
        free_up_to(block->first);
        initial.blocks.push_back({block->first, bytes, block->second.requested, true});
        filled = block->first + static_cast<Address>(bytes);
      }
      free_up_to(end);
      EBB_RETURN_IF_ERROR(builder.AddInitial(std::move(initial)));
    }
    return AddLoose(builder, block, std::numeric_limits<Address>::max());
  }

  Status AddLoose(TraceBuilder& builder, std::map<Address, LiveBlock>::iterator& block, Address before) {
    for (; block != live_.end() && block->first < before; ++block) {
      const Bytes bytes = SizeOf(block->second, kTooLarge, true);
      InitialSegment initial;
      initial.address = block->first;
      initial.bytes = bytes;
      initial.stream = builder.Stream(block->second.stream);
      initial.small = bytes <= kMiB;
      initial.blocks.push_back({block->first, bytes, block->second.requested, true});
      EBB_RETURN_IF_ERROR(builder.AddInitial(std::move(initial)));
    }
    return {};
  }

  // A block that was allocated before the history and freed in it: its size follows from the rule by which blocks are
  // split, as it stands without options.
  static Bytes SizeOf(const LiveBlock& block, Bytes room, bool small) {
    if (block.bytes > 0) return block.bytes;
    const Bytes rounded = (std::max<Bytes>(block.requested, 1) + 511) / 512 * 512;
    const bool unsplit = !small && room >= rounded && room - rounded <= kLeastLargeRest;
    return unsplit ? room : rounded;
  }

  const Pickle& in_;
  const std::string& path_;
  const TraceOptions options_;
  std::int64_t device_ = 0;
  std::vector<Entry> entries_;
  std::map<Address, Segment> segments_;
  std::map<Address, LiveBlock> live_;
};

}  // namespace

Result<Trace> ParseTorchSnapshot(std::string_view content, const std::string& path, const TraceOptions& options) {
  EBB_ASSIGN_OR_RETURN(const Pickle pickle, Pickle::Parse(content, path));
  return SnapshotReader(pickle, path, options).Read();
}

}  // namespace ebbtide::trace
