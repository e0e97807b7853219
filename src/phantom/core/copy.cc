// Addresses become pieces of memory with or without content when a copy is submitted; the stream's thread moves them.
#include "phantom/core/copy.h"

#include <cstdio>
#include <cstring>
#include <vector>

#include "phantom/core/declare.h"
#include "phantom/core/device.h"
#include "phantom/core/values.h"

namespace ebbtide::phantom {
namespace {

struct Piece {
  std::byte* content = nullptr;  // null: device memory without content
  Bytes bytes = 0;
};

// One end of a copy.
struct Side {
  bool on_device = false;
  bool pageable = true;  // host memory that the driver does not know
  bool known = true;     // false: device addresses without memory
  int gpu = 0;           // of device memory
  std::vector<Piece> pieces;
  std::vector<std::shared_ptr<Physical>> held;
  std::vector<Access> accesses;
};

void AddDeviceRow(const Device& device, Address begin, Bytes bytes, Side& side) {
  std::vector<Range> ranges = device.space.Cover(begin, bytes);
  side.known = side.known && (!ranges.empty() || bytes == 0);
  Address end = begin + static_cast<Address>(bytes);
  for (const Range& range : ranges) {
    Address from = std::max(begin, range.begin);
    Bytes size = static_cast<Bytes>(std::min(end, range.end()) - from);
    std::byte* content = range.physical ? range.physical->content() : reinterpret_cast<std::byte*>(range.begin);
    if (range.physical && content) content += range.offset;
    if (content) content += from - range.begin;
    side.pieces.push_back({content, size});
    if (range.physical && (side.held.empty() || side.held.back() != range.physical))
      side.held.push_back(range.physical);
  }
}

Side LookUp(const Device& device, Address begin, Bytes width, Bytes height, Bytes pitch, bool is_write) {
  Side side;
  AccessKind kind = is_write ? AccessKind::kWrite : AccessKind::kRead;
  std::optional<Range> range = device.space.Find(begin);
  side.on_device = range && range->on_device();
  if (side.on_device) side.gpu = range->gpu();
  side.pageable = !range;
  for (Bytes row = 0; row < height; ++row) {
    Address at = begin + static_cast<Address>(row * pitch);
    if (side.on_device)
      AddDeviceRow(device, at, width, side);
    else
      side.pieces.push_back({reinterpret_cast<std::byte*>(at), width});
    if (device.races && !side.pageable) side.accesses.push_back({at, width, kind, !side.on_device});
  }
  return side;
}

void Move(const Device& device, const std::vector<Piece>& to, const std::vector<Piece>& from) {
  std::size_t t = 0, f = 0;
  Bytes t_done = 0, f_done = 0;
  while (t < to.size() && f < from.size()) {
    Bytes bytes = std::min(to[t].bytes - t_done, from[f].bytes - f_done);
    if (to[t].content && from[f].content)
      std::memmove(to[t].content + t_done, from[f].content + f_done, bytes);
    else if (to[t].content)
      device.host_memory.FillZero(to[t].content + t_done, bytes);
    if ((t_done += bytes) == to[t].bytes) ++t, t_done = 0;
    if ((f_done += bytes) == from[f].bytes) ++f, f_done = 0;
  }
}

bool HasContent(const Side& side) {
  for (const Piece& piece : side.pieces)
    if (piece.content) return true;
  return false;
}

Nanos OnDeviceTime(const DeviceProfile& profile, double bytes) {
  double transfer = profile.memory_bandwidth > 0 ? bytes / profile.memory_bandwidth * 1e9 : 0;
  return profile.launch_latency + static_cast<Nanos>(transfer);
}

// Of one read by the host that is given what is known; a larger one gets zeros.
constexpr Bytes kLargestRead = 64 * kMiB;

using Content = std::shared_ptr<const std::vector<std::byte>>;

struct Followed {
  Content content;       // what the host gets; null: zeros, or the copy does not go to the host
  bool is_true = false;  // and not what somebody assumes
};

// Follows what is known of memory without content through a copy; contents are those of the moment of submission.
Followed FollowContent(Device& device, Stream& stream, const CopyRequest& request, const Side& to, Side& from) {
  const bool to_empty = to.on_device && !HasContent(to), from_empty = from.on_device && !HasContent(from);
  if (!to_empty && !from_empty) return {};
  Content content;
  bool is_true = true;
  if (from_empty && !to.on_device && request.width * request.height > kLargestRead) {
    ReadKnown(device, request.from, request.width, nullptr, is_true);
  } else if (from_empty && !to.on_device) {
    auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(request.width * request.height));
    bool known = true;
    if (request.height == 1) {
      known = ReadKnown(device, request.from, request.width, bytes->data(), is_true);
    } else {
      for (Bytes row = 0; row < request.height; ++row) {
        known = ReadKnown(device, request.from + static_cast<Address>(row * request.from_pitch), request.width,
                          bytes->data() + row * request.width, is_true) &&
                known;
      }
    }
    if (known) content = std::move(bytes);
  } else if (to_empty && from_empty) {
    for (Bytes row = 0; row < request.height; ++row) {
      device.known.Copy(request.to + static_cast<Address>(row * request.to_pitch),
                        request.from + static_cast<Address>(row * request.from_pitch), request.width);
    }
  } else if (to_empty) {
    const bool is_small = request.width * request.height <= KnownContent::kLargestCopy;
    const bool readable = !from.on_device && (from.pageable || stream.IsDone());
    for (Bytes row = 0; row < request.height; ++row) {
      const Address at = request.to + static_cast<Address>(row * request.to_pitch);
      if (is_small && readable)
        device.known.Write(at, from.pieces[static_cast<std::size_t>(row)].content, request.width, 0);
      else
        device.known.Forget(at, request.width);
    }
  }
  if (content) from.pieces = {{const_cast<std::byte*>(content->data()), request.width * request.height}};
  return {content, content && is_true};
}

void FollowFill(Device& device, const FillRequest& request, Address begin, Bytes bytes) {
  if (bytes > KnownContent::kLargestCopy) return device.known.Forget(begin, bytes);
  std::vector<std::byte> content(static_cast<std::size_t>(bytes));
  for (Bytes at = 0; at < bytes; at += request.element) {
    std::memcpy(content.data() + at, &request.value, static_cast<std::size_t>(request.element));
  }
  device.known.Write(begin, content.data(), bytes, 0);
}

}  // namespace

void CountHostRead(Statistics& statistics, Bytes bytes, bool has_content, bool is_assumed) {
  statistics.host_reads.Add(bytes);
  if (has_content) return;
  if (statistics.empty_host_reads.Add(bytes) == 1 && !is_assumed)
    std::fprintf(stderr, "phantom: the host reads device memory, whose kernels were skipped: it gets zeros\n");
}

Code Copy(Device& device, Stream& stream, const CopyRequest& request) {
  if (request.width < 0 || request.height < 0 || request.width > kTooLarge) return Code::kInvalidValue;
  if (request.width == 0 || request.height == 0) return Code::kSuccess;
  Side to = LookUp(device, request.to, request.width, request.height, request.to_pitch, true);
  Side from = LookUp(device, request.from, request.width, request.height, request.from_pitch, false);
  if (!to.known || !from.known) return Code::kInvalidValue;

  const bool has_content = !from.on_device || HasContent(from);
  const auto [recent, is_true] = FollowContent(device, stream, request, to, from);
  Bytes bytes = request.width * request.height;
  Operation operation{.name = InDeclaredOperation() ? CurrentName() : request.name, .kind = OperationKind::kCopy};
  Statistics& statistics = device.statistics;
  bool to_host = false;
  if (to.on_device && from.on_device && to.gpu != from.gpu) {
    statistics.copies_on_device.Add(bytes);
    operation.engine = &device.gpu(from.gpu).links;
  } else if (to.on_device && from.on_device) {
    statistics.copies_on_device.Add(bytes);
    operation.duration = OnDeviceTime(device.profile, 2.0 * static_cast<double>(bytes));
  } else if (to.on_device) {
    statistics.copies_to_device.Add(bytes);
    operation.engine = &device.gpu(to.gpu).to_device;
  } else if (from.on_device) {
    statistics.copies_to_host.Add(bytes);
    operation.engine = &device.gpu(from.gpu).to_host;
    to_host = true;
    CountHostRead(statistics, bytes, has_content || is_true, recent != nullptr);
  } else {
    statistics.copies_on_host.Add(bytes);
  }
  if (operation.engine) operation.duration = operation.engine->Duration(bytes);
  operation.accesses = std::move(to.accesses);
  operation.accesses.insert(operation.accesses.end(), from.accesses.begin(), from.accesses.end());

  bool moves = HasContent(to);
  operation.at_once = !HasContent(from) || recent;
  bool both_on_device = to.on_device && from.on_device;
  // The program may use or free pageable memory as soon as the call returns.
  bool pageable = (to.pageable && !to.on_device) || (from.pageable && !from.on_device);
  bool must_finish = moves && pageable;
  if (moves)
    operation.work = [&device, recent, to = std::move(to), from = std::move(from)] {
      Move(device, to.pieces, from.pieces);
    };
  bool to_pageable_host = pageable && to_host;
  stream.Submit(std::move(operation));
  if ((request.blocking && !both_on_device) || to_pageable_host)
    stream.Synchronize();
  else if (must_finish)
    stream.Finish();
  return Code::kSuccess;
}

Code Fill(Device& device, Stream& stream, const FillRequest& request) {
  if (request.width < 0 || request.height < 0 || request.width > kTooLarge / 4) return Code::kInvalidValue;
  Bytes row_bytes = request.width * request.element;
  if (row_bytes == 0 || request.height == 0) return Code::kSuccess;
  if (request.to % static_cast<Address>(request.element) != 0) return Code::kInvalidValue;
  Side to = LookUp(device, request.to, row_bytes, request.height, request.pitch, true);
  if (!to.known || to.pageable) return Code::kInvalidValue;
  device.statistics.fills.Add(row_bytes * request.height);
  for (Bytes row = 0; to.on_device && !HasContent(to) && row < request.height; ++row)
    FollowFill(device, request, request.to + static_cast<Address>(row * request.pitch), row_bytes);

  Operation operation{.name = InDeclaredOperation() ? CurrentName() : request.name, .kind = OperationKind::kFill};
  operation.duration =
      OnDeviceTime(device.profile, static_cast<double>(row_bytes) * static_cast<double>(request.height));
  operation.accesses = std::move(to.accesses);
  if (HasContent(to)) {
    operation.work = [to = std::move(to), value = request.value, element = request.element] {
      for (const Piece& piece : to.pieces) {
        if (!piece.content) continue;
        if (element == 1) {
          std::memset(piece.content, static_cast<int>(value & 0xff), piece.bytes);
        } else {
          for (Bytes at = 0; at < piece.bytes; at += element) std::memcpy(piece.content + at, &value, element);
        }
      }
    };
  }
  bool waits = request.blocking && !to.on_device;
  stream.Submit(std::move(operation));
  if (waits) stream.Synchronize();
  return Code::kSuccess;
}

}  // namespace ebbtide::phantom
