#include "run/cuda_device.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "run/access_order.h"
#include "run/cuda_memory.h"

namespace ebbtide::run {
namespace {

using Clock = AccessOrder::Clock;

constexpr int kCompute = 0, kOut = 1, kIn = 2;
constexpr unsigned kNonBlocking = 1;

CudaAddress Number(const void* address) { return reinterpret_cast<CudaAddress>(address); }

class Gpu final : public CudaDevice {
 public:
  Gpu(std::shared_ptr<CudaPrimary> primary, const CudaDeviceOptions& options)
      : primary_(std::move(primary)),
        driver_(primary_->driver()),
        capacity_(options.capacity),
        pinned_(std::make_shared<PinnedRanges>(options.pinned_limit)) {}
  ~Gpu() override;

  Status Start() {
    const CudaPrimary::Current current(*primary_);
    for (const int s : {kOut, kIn}) {
      EBB_RETURN_IF_ERROR(Check(driver_.StreamCreate(&streams_[s], kNonBlocking), "cuStreamCreate"));
    }
    if (capacity_ == 0) return {};
    const int code = driver_.MemAlloc(&pool_, static_cast<std::size_t>(capacity_));
    if (code == 0) return {};
    return Fail("device cuda: no memory for a pool of {} bytes ({}): {}", capacity_, FormatBytes(capacity_),
                driver_.NameOf(code));
  }

  Bytes capacity() const override { return capacity_; }
  std::byte* At(Bytes address) override {
    return reinterpret_cast<std::byte*>(pool_) + address;  // NOLINT: the driver knows memory by number
  }
  Bytes alignment() const override { return 512; }  // as torch's own on a GPU
  Result<std::shared_ptr<HostMemory>> MakeHostMemory(Bytes bytes) override {
    std::shared_ptr<HostMemory> made = PinnedPages::Make(primary_, pinned_, bytes);
    if (!made) return Fail("the host has no memory for {}", FormatBytes(bytes));
    return made;
  }

  // Tickets of copies in are odd.
  Result<Ticket> CopyOut(Bytes address, std::byte* host, Bytes bytes) override {
    return Queue(kOut, pool_ + static_cast<CudaAddress>(address), host, bytes);
  }
  Result<Ticket> CopyIn(const std::byte* host, Bytes address, Bytes bytes) override {
    return Queue(kIn, pool_ + static_cast<CudaAddress>(address), host, bytes);
  }
  // Nothing to do: what comes to the memory of the copy waits for it then.
  Status Await(Ticket) override { return {}; }
  void Drain() override;
  std::vector<CopySpan> TakeCopies() override { return std::exchange(spans_, {}); }

  Status Read(Bytes address, std::byte* host, Bytes bytes) override {
    EBB_RETURN_IF_ERROR(Save(address, host, bytes));
    return HostWaits();
  }
  Status Write(const std::byte* host, Bytes address, Bytes bytes) override {
    EBB_RETURN_IF_ERROR(Restore(host, address, bytes));
    return HostWaits();
  }
  Status Save(Bytes address, std::byte* host, Bytes bytes) override {
    return Copy(kCompute, false, pool_ + static_cast<CudaAddress>(address), host, bytes);
  }
  Status Restore(const std::byte* host, Bytes address, Bytes bytes) override {
    return Copy(kCompute, true, pool_ + static_cast<CudaAddress>(address), host, bytes);
  }

  void SetCompute(void* stream) override {
    if (stream == streams_[kCompute]) return;
    Drain();
    streams_[kCompute] = static_cast<CudaStream>(stream);
  }
  Status BeginOp(const char* name, std::span<const Used> accesses) override;
  void EndOp() override;

  void StartClock() override;
  Nanos Mark() override;
  Nanos When(Nanos mark) const override {
    return mark > 0 && mark <= static_cast<Nanos>(times_.size()) ? times_[static_cast<std::size_t>(mark - 1)] : base_;
  }

  void SkipWait(std::int64_t n) override { skip_ = n; }
  std::int64_t waits() const override { return waits_; }
  Bytes pinned() const override { return pinned_->pinned(); }

 private:
  // An event behind an operation, and what is over when it is.
  struct Point {
    CudaEvent event = nullptr;
    Clock clock{};
  };
  struct Op {
    std::uint64_t before;  // how many operations compute had
    const char* name;
    std::vector<Used> accesses;
  };
  struct Queued {
    Ticket ticket;
    CudaEvent begin, end;
  };

  Status Check(int code, const char* call) const {
    if (code == 0) return {};
    return Fail("device cuda: {}: {}", call, driver_.NameOf(code));
  }
  CudaEvent TakeEvent();
  Result<CudaEvent> Record(int stream);
  Result<Point> PointBehind(int stream, std::uint64_t number);
  Status Order(int stream, std::span<const Touch> touches);
  Status Wait(int stream, const Point& point);
  Status Copy(int stream, bool to_device, CudaAddress device, const std::byte* host, Bytes bytes);
  Result<Ticket> Queue(int stream, CudaAddress device, const std::byte* host, Bytes bytes);
  Status HostWaits();
  void Tell(const Op& op);
  Nanos TimeOf(CudaEvent event) const;

  const std::shared_ptr<CudaPrimary> primary_;
  const CudaDriver& driver_;
  const Bytes capacity_;
  const std::shared_ptr<PinnedRanges> pinned_;
  CudaAddress pool_ = 0;
  CudaStream streams_[AccessOrder::kStreams] = {};  // compute's is 0, the default stream, until it is set

  AccessOrder order_;
  std::vector<Op> open_;                             // begun and not ended; one may ask for more within another
  std::deque<Point> points_[AccessOrder::kStreams];  // since the last Drain, in order
  std::vector<CudaEvent> events_, used_;             // free; free once all is over
  std::vector<Queued> queued_;
  std::vector<CopySpan> spans_;
  Ticket tickets_ = 0;

  CudaEvent start_ = nullptr;  // of the clock
  Nanos base_ = 0;
  bool touched_ = true;  // compute, since the last mark
  std::vector<CudaEvent> marks_;
  std::vector<Nanos> times_;  // of marks, as far as they are known
  std::int64_t skip_ = 0, waits_ = 0;
};

Gpu::~Gpu() {
  Drain();
  const CudaPrimary::Current current(*primary_);
  if (start_) driver_.EventDestroy(start_);
  for (const CudaEvent event : events_) driver_.EventDestroy(event);
  for (const int s : {kOut, kIn}) {
    if (streams_[s]) driver_.StreamDestroy(streams_[s]);
  }
  if (pool_) driver_.MemFree(pool_);
}

// Null: there is none.
CudaEvent Gpu::TakeEvent() {
  CudaEvent event = nullptr;
  if (events_.empty()) {
    const CudaPrimary::Current current(*primary_);
    return driver_.EventCreate(&event, 0) == 0 ? event : nullptr;
  }
  event = events_.back();
  events_.pop_back();
  return event;
}

Result<CudaEvent> Gpu::Record(int stream) {
  const CudaEvent event = TakeEvent();
  if (!event) return Fail("device cuda: no more events");
  used_.push_back(event);
  EBB_RETURN_IF_ERROR(Check(driver_.EventRecord(event, streams_[stream]), "cuEventRecord"));
  Point point{event, order_.Of(stream)};
  // Of an op that has only begun, nothing need be before the event.
  if (stream == kCompute && !open_.empty()) point.clock[kCompute] = open_.front().before;
  points_[stream].push_back(point);
  return event;
}

// The first point of the stream that is behind its operation of that number.
Result<Gpu::Point> Gpu::PointBehind(int stream, std::uint64_t number) {
  std::deque<Point>& points = points_[stream];
  const auto point = std::ranges::lower_bound(
      points, number, {}, [&](const Point& p) { return p.clock[static_cast<std::size_t>(stream)]; });
  if (point != points.end()) return *point;
  EBB_RETURN_IF_ERROR(Record(stream));
  return points.back();
}

Status Gpu::Wait(int stream, const Point& point) {
  ++waits_;
  if (skip_ > 0 && --skip_ == 0) {
    order_.Join(stream, point.clock);
    return {};
  }
  // Where the stream cannot wait, the host does.
  if (driver_.StreamWaitEvent(streams_[stream], point.event, 0) != 0)
    EBB_RETURN_IF_ERROR(Check(driver_.EventSynchronize(point.event), "cuEventSynchronize"));
  order_.Join(stream, point.clock);
  return {};
}

// The stream waits for whatever it has to before it touches this.
Status Gpu::Order(int stream, std::span<const Touch> touches) {
  const Clock needed = order_.Needed(stream, touches);
  if (stream == kCompute && needed != Clock{}) touched_ = true;
  std::vector<std::pair<int, Point>> points;
  for (int other = 0; other < AccessOrder::kStreams; ++other) {
    const std::uint64_t number = needed[static_cast<std::size_t>(other)];
    if (number == 0) continue;
    EBB_ASSIGN_OR_RETURN(const Point point, PointBehind(other, number));
    points.emplace_back(other, point);
  }
  for (const auto& [stream_of, point] : points) {
    const auto o = static_cast<std::size_t>(stream_of);
    const bool implied = std::ranges::any_of(
        points, [&](const auto& p) { return p.first != static_cast<int>(o) && p.second.clock[o] >= needed[o]; });
    if (!implied) EBB_RETURN_IF_ERROR(Wait(stream, point));
  }
  return {};
}

Status Gpu::Copy(int stream, bool to_device, CudaAddress device, const std::byte* host, Bytes bytes) {
  if (bytes == 0) return {};
  const auto size = static_cast<CudaAddress>(bytes);
  const Touch touches[] = {{device, device + size, to_device}, {Number(host), Number(host) + size, !to_device}};
  const CudaPrimary::Current current(*primary_);
  EBB_RETURN_IF_ERROR(Order(stream, touches));
  order_.Add(stream, touches);
  touched_ = touched_ || stream == kCompute;
  for (Bytes done = 0; done < bytes;) {
    const Bytes part = pinned_->Alike(host + done, bytes - done);
    const CudaAddress there = device + static_cast<CudaAddress>(done), here = Number(host + done);
    const int code = driver_.MemcpyAsync(to_device ? there : here, to_device ? here : there,
                                         static_cast<std::size_t>(part), streams_[stream]);
    EBB_RETURN_IF_ERROR(Check(code, "cuMemcpyAsync"));
    done += part;
  }
  return {};
}

Result<Ticket> Gpu::Queue(int stream, CudaAddress device, const std::byte* host, Bytes bytes) {
  const CudaEvent begin = TakeEvent();
  if (!begin) return Fail("device cuda: no more events");
  used_.push_back(begin);
  const auto size = static_cast<CudaAddress>(bytes);
  const Touch touches[] = {{device, device + size, stream == kIn}, {Number(host), Number(host) + size, stream == kOut}};
  const CudaPrimary::Current current(*primary_);
  EBB_RETURN_IF_ERROR(Order(stream, touches));
  EBB_RETURN_IF_ERROR(Check(driver_.EventRecord(begin, streams_[stream]), "cuEventRecord"));
  EBB_RETURN_IF_ERROR(Copy(stream, stream == kIn, device, host, bytes));
  EBB_ASSIGN_OR_RETURN(const CudaEvent end, Record(stream));
  const Ticket ticket = ++tickets_ * 2 + (stream == kIn ? 1 : 0);
  queued_.push_back({ticket, begin, end});
  return ticket;
}

Status Gpu::BeginOp(const char* name, std::span<const Used> accesses) {
  std::vector<Touch> touches;
  for (const Used& access : accesses) {
    if (access.bytes <= 0) continue;
    const CudaAddress begin = pool_ + static_cast<CudaAddress>(access.address);
    touches.push_back({begin, begin + static_cast<CudaAddress>(access.bytes), access.writes});
  }
  {
    const CudaPrimary::Current current(*primary_);
    EBB_RETURN_IF_ERROR(Order(kCompute, touches));
  }
  open_.push_back({order_.Of(kCompute)[kCompute], name, {accesses.begin(), accesses.end()}});
  order_.Add(kCompute, touches);
  if (!Phantom().there()) return {};
  Phantom().begin(name, nullptr);
  Tell(open_.back());
  return {};
}

// What the op touches it may touch from its beginning to its end: the race checker is told at both.
void Gpu::EndOp() {
  if (open_.empty()) return;
  if (Phantom().there()) {
    Tell(open_.back());
    Phantom().end();
  }
  open_.pop_back();
  touched_ = true;
}

void Gpu::Tell(const Op& op) {
  for (const Used& access : op.accesses) {
    if (access.bytes <= 0) continue;
    Phantom().declare(streams_[kCompute], At(access.address), static_cast<std::size_t>(access.bytes), access.writes,
                      op.name);
  }
}

Status Gpu::HostWaits() {
  const CudaPrimary::Current current(*primary_);
  EBB_RETURN_IF_ERROR(Check(driver_.StreamSynchronize(streams_[kCompute]), "cuStreamSynchronize"));
  order_.HostWaited(kCompute);
  return {};
}

void Gpu::Drain() {
  const CudaPrimary::Current current(*primary_);
  for (const CudaStream stream : {streams_[kCompute], streams_[kOut], streams_[kIn]}) {
    // A second time where the first is refused: memory must not be taken back before.
    if (driver_.StreamSynchronize(stream) != 0) driver_.StreamSynchronize(stream);
  }
  for (int s = 0; s < AccessOrder::kStreams; ++s) {
    order_.HostWaited(s);
    points_[s].clear();
  }
  order_.Clear();
  for (const Queued& copy : queued_) spans_.push_back({copy.ticket, TimeOf(copy.begin), TimeOf(copy.end)});
  queued_.clear();
  for (std::size_t i = times_.size(); i < marks_.size(); ++i) times_.push_back(TimeOf(marks_[i]));
  events_.insert(events_.end(), used_.begin(), used_.end());
  used_.clear();
}

Nanos Gpu::TimeOf(CudaEvent event) const {
  float milliseconds = 0;
  if (!start_ || driver_.EventElapsedTime(&milliseconds, start_, event) != 0) return base_;
  return base_ + static_cast<Nanos>(std::llround(static_cast<double>(milliseconds) * 1e6));
}

void Gpu::StartClock() {
  const CudaPrimary::Current current(*primary_);
  if (!start_) start_ = TakeEvent();
  base_ = Now();
  if (start_) driver_.EventRecord(start_, streams_[kCompute]);
  marks_.clear();
  times_.clear();
  touched_ = true;
}

Nanos Gpu::Mark() {
  if (touched_) {
    const CudaPrimary::Current current(*primary_);
    const Result<CudaEvent> event = Record(kCompute);
    if (event) marks_.push_back(*event), touched_ = false;
  }
  return static_cast<Nanos>(marks_.size());
}

}  // namespace

Result<std::shared_ptr<CudaDevice>> MakeCudaDevice(const CudaDeviceOptions& options) {
  if (options.capacity < 0 || options.capacity > kTooLarge)
    return Fail("a pool of {} bytes: expected fewer", options.capacity);
  EBB_ASSIGN_OR_RETURN(std::shared_ptr<CudaPrimary> primary, CudaPrimary::Make(options.ordinal));
  auto gpu = std::make_shared<Gpu>(std::move(primary), options);
  EBB_RETURN_IF_ERROR(gpu->Start());
  return gpu;
}

}  // namespace ebbtide::run
