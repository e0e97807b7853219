// The two forms of traces as CSV: our own, and the events of a torch snapshot.
#include "base/csv.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "base/json_text.h"
#include "trace/builder.h"
#include "trace/trace.h"

namespace ebbtide::trace {
namespace {

// Reads our own form row by row.
class OwnReader {
 public:
  OwnReader(std::string_view text, const std::string& path) : in_(text, path) {
    trace_.path = path;
    trace_.place_name = "line";
  }

  Result<Trace> Read() {
    action_ = in_.Column("action");
    id_ = in_.Column("id");
    bytes_ = in_.Column("bytes");
    stream_ = in_.Column("stream");
    address_ = in_.Column("address");
    if (!in_.ok()) return tl::unexpected<Error>(in_.error());
    if (!action_ || !id_ || !bytes_) {
      return in_.Wrong(
          "expected a header with the columns action,id,bytes,stream (or action,addr,size of a torch history)");
    }
    while (in_.Next()) {
      EBB_RETURN_IF_ERROR(Row(in_.Text(action_)));
      if (!in_.ok()) break;
    }
    if (!in_.ok()) return tl::unexpected<Error>(in_.error());
    return std::move(trace_);
  }

 private:
  Status Row(std::string_view action) {
    if (action == "alloc") return Allocate();
    if (action == "free") return Free();
    if (action == "record_stream") {
      EBB_ASSIGN_OR_RETURN(const std::int32_t block, Block());
      TraceEvent& event = Append(Action::kRecordStream);
      event.block = block;
      event.stream = Stream();
      return {};
    }
    if (action == "work") {
      Append(Action::kWork).stream = Stream();
      return {};
    }
    if (action == "sync") {
      TraceEvent& event = Append(Action::kSynchronize);
      if (!in_.Text(stream_).empty()) event.stream = Stream();
      return {};
    }
    if (action == "empty_cache") {
      Append(Action::kEmptyCache);
      return {};
    }
    if (action == "segment_alloc" || action == "segment_free") {
      trace_.records_segments = true;
      TraceEvent& event = Append(action == "segment_alloc" ? Action::kSegmentTaken : Action::kSegmentGiven);
      event.bytes = in_.Integer(bytes_, "a number of bytes from 1 on", 1);
      if (!in_.Text(address_).empty()) {
        event.address = static_cast<Address>(in_.Integer(address_, "an address", 0));
        trace_.records_addresses = true;
      }
      return {};
    }
    return in_.Wrong(
        fmt::format("expected alloc, free, record_stream, work, sync, empty_cache, segment_alloc or "
                    "segment_free, found {}",
                    action.empty() ? "nothing" : Quoted(action)));
  }

  Status Allocate() {
    const std::string_view id = in_.Text(id_);
    if (id.empty()) return in_.Wrong("expected an id");
    const auto [found, is_new] = live_.try_emplace(std::string(id), trace_.blocks);
    if (!is_new) return in_.Wrong(fmt::format("id {} is allocated already and not freed", Quoted(id)));
    if (trace_.blocks == std::numeric_limits<std::int32_t>::max()) return in_.Wrong("too many blocks");
    TraceEvent& event = Append(Action::kAllocate);
    event.block = trace_.blocks++;
    event.bytes = in_.Integer(bytes_, "a number of bytes from 0 on", 0);
    event.stream = Stream();
    return {};
  }

  Status Free() {
    EBB_ASSIGN_OR_RETURN(const std::int32_t block, Block());
    Append(Action::kFree).block = block;
    live_.erase(std::string(in_.Text(id_)));
    return {};
  }

  Result<std::int32_t> Block() {
    const std::string_view id = in_.Text(id_);
    const auto found = live_.find(std::string(id));
    if (found == live_.end()) {
      return in_.Wrong(fmt::format("expected the id of a block that is allocated and not freed, found {}",
                                   id.empty() ? "nothing" : Quoted(id)));
    }
    return found->second;
  }

  // None given: the first.
  StreamId Stream() {
    const std::string_view name = in_.Text(stream_).empty() ? "0" : in_.Text(stream_);
    const auto [found, is_new] = streams_.try_emplace(std::string(name), StreamId(streams_.size()));
    if (is_new) trace_.streams.emplace_back(name);
    return found->second;
  }

  TraceEvent& Append(Action action) {
    TraceEvent& event = trace_.events.emplace_back();
    event.action = action;
    event.place = in_.line();
    return event;
  }

  CsvReader in_;
  std::optional<std::size_t> action_, id_, bytes_, stream_, address_;
  Trace trace_;
  std::unordered_map<std::string, std::int32_t> live_;
  std::unordered_map<std::string, StreamId> streams_;
};

Status ReadInitial(std::string_view text, const std::string& path, TraceBuilder& builder) {
  CsvReader in(text, path);
  const auto segment_address = in.Column("seg_addr"), segment_size = in.Column("seg_size"), pool = in.Column("pool"),
             stream = in.Column("stream"), address = in.Column("block_addr"), size = in.Column("block_size"),
             allocated = in.Column("allocated"), requested = in.Column("requested_size");
  if (!in.ok()) return tl::unexpected<Error>(in.error());
  if (!segment_address || !segment_size || !pool || !stream || !address || !size || !allocated) {
    return in.Wrong(
        "expected a header with the columns "
        "seg_addr,seg_size,pool,stream,block_addr,block_size,allocated,requested_size");
  }
  InitialSegment segment;
  Address filled = 0;  // up to here
  const auto finish = [&]() -> Status {
    if (segment.blocks.empty()) return {};
    if (filled != segment.address + static_cast<Address>(segment.bytes)) {
      return in.Wrong(fmt::format("expected blocks that fill the segment at {}", segment.address));
    }
    return builder.AddInitial(std::move(segment));
  };
  while (in.Next()) {
    const Address begin = static_cast<Address>(in.Integer(segment_address, "an address", 0));
    const Address at = static_cast<Address>(in.Integer(address, "an address", 0));
    const Bytes bytes = in.Integer(size, "a number of bytes from 1 on", 1);
    if (!in.ok()) break;
    if (segment.blocks.empty() || begin != segment.address) {
      EBB_RETURN_IF_ERROR(finish());
      segment = InitialSegment();
      segment.address = filled = begin;
      segment.bytes = in.Integer(segment_size, "a number of bytes from 1 on", 1);
      segment.stream = builder.Stream(in.Text(stream));
      if (in.Text(pool) != "small" && in.Text(pool) != "large") {
        return in.Wrong(fmt::format("expected small or large as pool, found {}", Quoted(in.Text(pool))));
      }
      segment.small = in.Text(pool) == "small";
    }
    if (at != filled || bytes > segment.bytes) {
      return in.Wrong(fmt::format("expected a block that begins at {}, where the one before it ends", filled));
    }
    filled += static_cast<Address>(bytes);
    const bool is_allocated = in.Integer(allocated, "0 or 1", 0) != 0;
    const Bytes wanted =
        is_allocated && !in.Text(requested).empty() ? in.Integer(requested, "a number of bytes from 0 on", 0) : bytes;
    if (!is_allocated && !segment.blocks.empty() && !segment.blocks.back().allocated) {
      segment.blocks.back().bytes += bytes;
    } else {
      segment.blocks.push_back({at, bytes, wanted, is_allocated});
    }
  }
  if (!in.ok()) return tl::unexpected<Error>(in.error());
  return finish();
}

}  // namespace

Result<Trace> ParseOwnTrace(std::string_view text, const std::string& path) { return OwnReader(text, path).Read(); }

Result<Trace> ParseTorchEvents(std::string_view text, const std::string& path, std::string_view initial,
                               const std::string& initial_path) {
  TraceBuilder builder(path, "line");
  if (!initial.empty()) EBB_RETURN_IF_ERROR(ReadInitial(initial, initial_path, builder));
  CsvReader in(text, path);
  const auto action = in.Column("action"), address = in.Column("addr"), size = in.Column("size"),
             stream = in.Column("stream");
  if (!in.ok()) return tl::unexpected<Error>(in.error());
  if (!action || !address || !size) return in.Wrong("expected a header with the columns action,addr,size,stream");
  while (in.Next()) {
    const Address at = static_cast<Address>(in.Integer(address, "an address", 0));
    const Bytes bytes = in.Integer(size, "a size from 0 on", 0);
    if (!in.ok()) break;
    EBB_RETURN_IF_ERROR(builder.Add(in.Text(action), at, bytes, in.Text(stream), in.line()));
  }
  if (!in.ok()) return tl::unexpected<Error>(in.error());
  return builder.Take();
}

}  // namespace ebbtide::trace
