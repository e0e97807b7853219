// Pages and events of a GPU by the driver's calls.
#include "tide/cuda_device.h"

#include <algorithm>

#include "device/cuda/library.h"

namespace ebbtide::tide {
namespace {

constexpr Bytes kPage = DeviceMemory::kGranule;
constexpr unsigned kEventWithoutTiming = 2;

Result<CudaPages> Load() {
  EBB_ASSIGN_OR_RETURN(CudaLibrary library, CudaLibrary::Open());
  CudaPages p{};
  library.Find(p.MemGetInfo, "cuMemGetInfo_v2");
  library.Find(p.MemAddressReserve, "cuMemAddressReserve");
  library.Find(p.MemCreate, "cuMemCreate");
  library.Find(p.MemMap, "cuMemMap");
  library.Find(p.MemSetAccess, "cuMemSetAccess");
  library.Find(p.MemUnmap, "cuMemUnmap");
  library.Find(p.MemRelease, "cuMemRelease");
  library.Find(p.EventQuery, "cuEventQuery");
  library.Find(p.CtxSynchronize, "cuCtxSynchronize");
  EBB_RETURN_IF_ERROR(library.AllFound());
  p.phantom_released = FindInProcess<decltype(p.phantom_released)>("ebbtide_phantom_released");
  return p;
}

}  // namespace

Result<const CudaPages*> LoadCudaPages() {
  static const Result<CudaPages> pages = Load();
  if (!pages) return tl::unexpected<Error>(pages.error());
  return &*pages;
}

Result<std::unique_ptr<CudaTideDevice>> CudaTideDevice::Make(int ordinal) {
  EBB_ASSIGN_OR_RETURN(const CudaPages* const pages, LoadCudaPages());
  EBB_ASSIGN_OR_RETURN(std::shared_ptr<CudaPrimary> primary, CudaPrimary::Make(ordinal));
  const CudaPrimary::Current current(*primary);
  std::size_t free = 0, total = 0;
  if (const int code = pages->MemGetInfo(&free, &total); code != 0) {
    return Fail("device cuda:{}: cuMemGetInfo: {}", ordinal, primary->driver().NameOf(code));
  }
  return std::unique_ptr<CudaTideDevice>(
      new CudaTideDevice(std::move(primary), pages, ordinal, static_cast<Bytes>(total)));
}

Bytes CudaTideDevice::free_memory() const {
  std::size_t free = 0, total = 0;
  return pages_.MemGetInfo(&free, &total) == 0 ? static_cast<Bytes>(free) : 0;
}

StreamId CudaTideDevice::IdOf(CudaStream stream) {
  if (last_id_.valid() && stream == last_stream_) return last_id_;
  const auto [found, added] = ids_.emplace(stream, streams_.size());
  if (added) {
    // From now on every free is marked. What the only stream so far has freed is marked here.
    if (streams_.size() == 1) MarkNow(streams_[0]);
    streams_.emplace_back().handle = stream;
  }
  last_stream_ = stream;
  last_id_ = StreamId(found->second);
  return last_id_;
}

// ---- Pages

std::optional<Address> CudaTideDevice::Reserve(Bytes bytes) {
  CudaAddress address = 0;
  if (pages_.MemAddressReserve(&address, static_cast<std::size_t>(bytes), static_cast<std::size_t>(kPage), 0, 0) != 0) {
    return std::nullopt;
  }
  return address;
}

// Each page has a handle of its own, so that it can be unmapped alone; mapped, the page is held by its mapping.
bool CudaTideDevice::Map(Address begin, Bytes bytes) {
  constexpr auto page = static_cast<std::size_t>(kPage);
  CudaPages::Properties properties;
  properties.location.id = ordinal_;
  Bytes mapped = 0;
  for (; mapped < bytes; mapped += kPage) {
    CudaPages::Handle handle = 0;
    if (pages_.MemCreate(&handle, page, &properties, 0) != 0) break;
    const int code = pages_.MemMap(begin + static_cast<Address>(mapped), page, 0, handle, 0);
    pages_.MemRelease(handle);
    if (code != 0) break;
  }
  CudaPages::Access access;
  access.location.id = ordinal_;
  if (mapped == bytes && pages_.MemSetAccess(begin, static_cast<std::size_t>(bytes), &access, 1) == 0) return true;
  Unmap(begin, mapped);
  return false;
}

void CudaTideDevice::Unmap(Address begin, Bytes bytes) {
  if (pages_.phantom_released && bytes > 0) {
    pages_.phantom_released(reinterpret_cast<const void*>(begin), static_cast<std::size_t>(bytes));
  }
  for (Bytes at = 0; at < bytes; at += kPage) {
    pages_.MemUnmap(begin + static_cast<Address>(at), static_cast<std::size_t>(kPage));
  }
}

void CudaTideDevice::Handed(Address begin, Bytes bytes, StreamId /*stream*/) {
  if (pages_.phantom_released) {
    pages_.phantom_released(reinterpret_cast<const void*>(begin), static_cast<std::size_t>(bytes));
  }
}

// ---- Streams

Event CudaTideDevice::Record(StreamId id) {
  Stream& stream = At(id);
  ++stream.last;
  if (streams_.size() > 1) MarkNow(stream);
  return {id, stream.last};
}

// Where no event is to be had, the host waits: slow, and right.
void CudaTideDevice::MarkNow(Stream& stream) {
  if (stream.finished == stream.last) return;
  if (!stream.marks.empty() && stream.marks.back().position == stream.last) return;
  CudaEvent event = nullptr;
  if (!spare_.empty()) {
    event = spare_.back();
    spare_.pop_back();
  } else if (driver_.EventCreate(&event, kEventWithoutTiming) != 0) {
    event = nullptr;
  }
  if (event && driver_.EventRecord(event, stream.handle) == 0) {
    stream.marks.push_back({stream.last, event});
    return;
  }
  if (event) spare_.push_back(event);
  if (driver_.StreamSynchronize(stream.handle) != 0) pages_.CtxSynchronize();
  Reach(stream, stream.last);
}

void CudaTideDevice::Reach(Stream& stream, std::int64_t position) {
  stream.finished = std::max(stream.finished, position);
  while (!stream.marks.empty() && stream.marks.front().position <= position) {
    spare_.push_back(stream.marks.front().event);
    stream.marks.pop_front();
  }
}

std::int64_t CudaTideDevice::Finished(StreamId id) {
  Stream& stream = At(id);
  if (stream.marks.empty()) MarkNow(stream);
  // Mostly the oldest is not reached, or all are.
  while (!stream.marks.empty() && pages_.EventQuery(stream.marks.front().event) == 0) {
    const bool all = pages_.EventQuery(stream.marks.back().event) == 0;
    Reach(stream, all ? stream.marks.back().position : stream.marks.front().position);
  }
  return stream.finished;
}

const CudaTideDevice::Mark* CudaTideDevice::MarkFor(const Event& event) {
  Stream& stream = At(event.stream);
  if (event.position <= stream.finished) return nullptr;
  const auto find = [&] { return std::ranges::lower_bound(stream.marks, event.position, {}, &Mark::position); };
  if (find() == stream.marks.end()) MarkNow(stream);
  const auto mark = find();
  return mark == stream.marks.end() ? nullptr : &*mark;
}

void CudaTideDevice::StreamWaits(StreamId id, const Event& event) {
  const Mark* const mark = MarkFor(event);
  if (mark && driver_.StreamWaitEvent(At(id).handle, mark->event, 0) != 0) HostWaits(event);
}

void CudaTideDevice::HostWaits(const Event& event) {
  const Mark* const mark = MarkFor(event);
  if (!mark) return;
  driver_.EventSynchronize(mark->event);
  Reach(At(event.stream), mark->position);
}

}  // namespace ebbtide::tide
