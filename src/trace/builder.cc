// Keeps the blocks that live by address, and refuses an entry that contradicts them.
#include "trace/builder.h"

#include <algorithm>

#include "base/json_text.h"

namespace ebbtide::trace {

TraceBuilder::TraceBuilder(std::string path, std::string place_name) {
  trace_.path = std::move(path);
  trace_.place_name = std::move(place_name);
  trace_.records_segments = true;
  trace_.records_addresses = true;
}

tl::unexpected<Error> TraceBuilder::Wrong(std::int64_t place, const std::string& message) const {
  return Fail("{}: {} {}: {}", trace_.path, trace_.place_name, place, message);
}

StreamId TraceBuilder::Stream(std::string_view name) {
  const auto [found, is_new] = streams_.try_emplace(std::string(name), StreamId(streams_.size()));
  if (is_new) trace_.streams.emplace_back(name);
  return found->second;
}

Status TraceBuilder::Begin(Address address, Bytes bytes, std::int32_t block, std::int64_t place) {
  const Address end = address + static_cast<Address>(std::max<Bytes>(bytes, 1));
  if (end < address)
    return Wrong(place, fmt::format("expected a block within the address space, found {} bytes", bytes));
  auto next = live_.lower_bound(address);
  if (next == live_.end() || next->first >= end) {
    if (next == live_.begin() || std::prev(next)->second.end <= address) {
      live_.emplace_hint(next, address, Live{end, block, false});
      return {};
    }
    --next;
  }
  return Wrong(place, fmt::format("a block of {} bytes at address {} overlaps the one at {}, which is not freed", bytes,
                                  address, next->first));
}

Status TraceBuilder::AddInitial(InitialSegment segment) {
  for (const InitialBlock& block : segment.blocks) {
    if (!block.allocated) continue;
    EBB_RETURN_IF_ERROR(Begin(block.address, block.bytes, trace_.blocks++, 0));
  }
  trace_.segments.push_back(std::move(segment));
  return {};
}

Result<TraceBuilder::LiveBlocks::iterator> TraceBuilder::Find(Address address, std::string_view action,
                                                              std::int64_t place) {
  const auto found = live_.find(address);
  if (found == live_.end()) {
    return Wrong(place, fmt::format("{} of address {}, where no block is allocated", action, address));
  }
  return found;
}

TraceEvent& TraceBuilder::Append(Action action, std::int64_t place) {
  TraceEvent& event = trace_.events.emplace_back();
  event.action = action;
  event.place = place;
  return event;
}

Status TraceBuilder::Add(std::string_view action, Address address, Bytes bytes, std::string_view stream,
                         std::int64_t place) {
  if (bytes < 0) return Wrong(place, fmt::format("expected a size from 0 on, found {}", bytes));
  if (action == "alloc") {
    if (trace_.blocks == std::numeric_limits<std::int32_t>::max()) return Wrong(place, "too many blocks");
    EBB_RETURN_IF_ERROR(Begin(address, bytes, trace_.blocks, place));
    TraceEvent& event = Append(Action::kAllocate, place);
    event.block = trace_.blocks++;
    event.bytes = bytes;
    event.address = address;
    event.stream = Stream(stream);
    return {};
  }
  if (action == "free" || action == "free_requested") {
    EBB_ASSIGN_OR_RETURN(const auto found, Find(address, action, place));
    if (found->second.leaving) return Wrong(place, fmt::format("address {} is freed twice", address));
    Append(action == "free" ? Action::kFree : Action::kFreeRequested, place).block = found->second.block;
    found->second.leaving = true;
    if (action == "free") live_.erase(found);
    return {};
  }
  if (action == "free_completed") {
    EBB_ASSIGN_OR_RETURN(const auto found, Find(address, action, place));
    const std::int32_t block = found->second.block;
    if (!found->second.leaving) {  // its free_requested may lie before the history begins
      if (block >= static_cast<std::int32_t>(trace_.blocks) || trace_.events.empty()) {
        return Wrong(place, fmt::format("free_completed of address {}, whose free was not requested", address));
      }
      Append(Action::kFree, place).block = block;
    } else if (TraceEvent& last = trace_.events.back(); last.action == Action::kFreeRequested && last.block == block) {
      last.action = Action::kFree;
    } else {
      Append(Action::kFreeCompleted, place).block = block;
    }
    live_.erase(found);
    return {};
  }
  const bool taken = action == "segment_alloc" || action == "segment_map";
  if (taken || action == "segment_free" || action == "segment_unmap") {
    TraceEvent& event = Append(taken ? Action::kSegmentTaken : Action::kSegmentGiven, place);
    event.bytes = bytes;
    event.address = address;
    event.stream = Stream(stream);
    return {};
  }
  if (action == "oom") {
    Append(Action::kOutOfMemory, place).bytes = bytes;
    return {};
  }
  if (action == "snapshot" || action == "user_defined") return {};
  return Wrong(place, fmt::format("expected an action of torch's history (alloc, free_requested, free_completed, "
                                  "segment_alloc, segment_free, ...), found {}",
                                  Quoted(action)));
}

}  // namespace ebbtide::trace
