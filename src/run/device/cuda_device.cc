// A device on the CUDA driver: one pool, streams for compute and copies, and events for moments.
#include "run/device/cuda_device.h"

#include <cmath>
#include <utility>

#include "run/device/cuda_streams.h"
#include "run/device/pinned_memory.h"
#include "run/device/pool_holdings.h"

namespace ebbtide::run {
namespace {

constexpr unsigned kNonBlocking = 1;
constexpr int kThreadLocal = 1;  // a capture forbids what disturbs it to the thread that captures, and to no other

CudaAddress Number(const void* address) { return reinterpret_cast<CudaAddress>(address); }

// The memory, and what its devices know of each other.
class CudaPool {
 public:
  CudaPool(std::shared_ptr<CudaPrimary> primary, const CudaDeviceOptions& options)
      : primary(std::move(primary)),
        capacity(options.capacity),
        pinned(std::make_shared<PinnedRanges>(options.pinned_limit)),
        streams(this->primary) {}
  ~CudaPool() {
    const CudaPrimary::Current current(*primary);
    if (address) primary->driver().MemFree(address);
  }
  CudaPool(const CudaPool&) = delete;
  CudaPool& operator=(const CudaPool&) = delete;

  Status Start() {
    if (capacity == 0) return {};
    const CudaPrimary::Current current(*primary);
    const int code = primary->driver().MemAlloc(&address, static_cast<std::size_t>(capacity));
    if (code == 0) return {};
    return Fail("device cuda: no memory for a pool of {} bytes ({}): {}", capacity, FormatBytes(capacity),
                primary->driver().NameOf(code));
  }

  const std::shared_ptr<CudaPrimary> primary;
  const Bytes capacity;
  const std::shared_ptr<PinnedRanges> pinned;
  CudaAddress address = 0;
  CudaStreams streams;
  PoolHoldings holdings;
};

class CudaCapturedWork final : public CapturedWork {
 public:
  CudaCapturedWork(std::shared_ptr<CudaPool> pool, CudaGraphExec executable)
      : pool_(std::move(pool)), executable_(executable) {}
  ~CudaCapturedWork() override {
    const CudaPrimary::Current current(*pool_->primary);
    pool_->primary->driver().GraphExecDestroy(executable_);
  }
  CudaCapturedWork(const CudaCapturedWork&) = delete;
  CudaCapturedWork& operator=(const CudaCapturedWork&) = delete;
  CudaGraphExec executable() const { return executable_; }

 private:
  const std::shared_ptr<CudaPool> pool_;
  const CudaGraphExec executable_;
};

class Gpu final : public CudaDevice {
 public:
  explicit Gpu(std::shared_ptr<CudaPool> pool)
      : pool_(std::move(pool)), driver_(pool_->primary->driver()), who_(pool_->holdings.Join()) {}
  ~Gpu() override;

  Status Start() {
    const CudaPrimary::Current current(*pool_->primary);
    for (Stream* const stream : {&out_, &in_}) {
      EBB_RETURN_IF_ERROR(Check(driver_.StreamCreate(&stream->handle, kNonBlocking), "cuStreamCreate"));
    }
    for (Stream* const stream : {&compute_, &out_, &in_}) stream->number = pool_->streams.Add(stream->handle);
    return {};
  }

  Bytes capacity() const override { return pool_->capacity; }
  std::byte* At(Bytes address) override {
    return reinterpret_cast<std::byte*>(pool_->address) + address;  // NOLINT: the driver knows memory by number
  }
  Bytes alignment() const override { return 512; }  // as torch's own on a GPU
  Result<std::shared_ptr<HostMemory>> MakeHostMemory(Bytes bytes) override {
    std::shared_ptr<HostMemory> made = PinnedPages::Make(pool_->primary, pool_->pinned, bytes);
    if (!made) return Fail("the host has no memory for {}", FormatBytes(bytes));
    return made;
  }

  // Tickets of copies in are odd.
  Result<Ticket> CopyOut(Bytes address, std::byte* host, Bytes bytes) override {
    return Queue(out_, false, address, host, bytes);
  }
  Result<Ticket> CopyIn(const std::byte* host, Bytes address, Bytes bytes) override {
    return Queue(in_, true, address, host, bytes);
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
    return Copy(compute_, false, address, host, bytes);
  }
  Status Restore(const std::byte* host, Bytes address, Bytes bytes) override {
    return Copy(compute_, true, address, host, bytes);
  }

  Result<std::shared_ptr<Device>> Beside() override {
    auto made = std::make_shared<Gpu>(pool_);
    EBB_RETURN_IF_ERROR(made->Start());
    return made;
  }
  PoolHoldings* holdings() override { return &pool_->holdings; }
  Status Hold(Bytes address, Bytes bytes) override { return pool_->holdings.Hold(who_, address, bytes); }
  void LetGo(Bytes address) override { pool_->holdings.LetGo(who_, address); }

  void SetCompute(void* stream) override {
    if (stream == compute_.handle) return;
    Drain();
    compute_.handle = static_cast<CudaStream>(stream);
    pool_->streams.Replace(compute_.number, compute_.handle);
  }
  Status BeginOp(const char* name, std::span<const Used> accesses) override;
  void EndOp() override;

  bool captures() const override { return !IsLegacy(compute_.handle); }
  Status BeginCapture() override;
  Result<std::shared_ptr<CapturedWork>> EndCapture() override;
  Status Launch(CapturedWork& work) override;

  void StartClock() override;
  Nanos Mark() override;
  Nanos When(Nanos mark) const override {
    return mark > 0 && mark <= static_cast<Nanos>(times_.size()) ? times_[static_cast<std::size_t>(mark - 1)] : base_;
  }

  void SkipWait(std::int64_t n) override { pool_->streams.SkipWait(n); }
  std::int64_t waits() const override { return pool_->streams.waits(); }
  Bytes pinned() const override { return pool_->pinned->pinned(); }

 private:
  struct Stream {
    CudaStream handle = nullptr;  // compute's is the default stream until it is set
    int number = -1;              // among those of the pool
  };
  struct Op {
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
  std::vector<Touch> TouchesOf(bool to_device, Bytes address, const std::byte* host, Bytes bytes) const {
    const CudaAddress device = pool_->address + static_cast<CudaAddress>(address);
    const auto size = static_cast<CudaAddress>(bytes);
    return {{device, device + size, to_device}, {Number(host), Number(host) + size, !to_device}};
  }
  Status Submit(const Stream& stream, bool to_device, Bytes address, const std::byte* host, Bytes bytes);
  Status Copy(const Stream& stream, bool to_device, Bytes address, const std::byte* host, Bytes bytes);
  Result<Ticket> Queue(const Stream& stream, bool to_device, Bytes address, const std::byte* host, Bytes bytes);
  Status HostWaits();
  void Tell(const Op& op);
  Nanos TimeOf(CudaEvent event) const;
  // Of the default stream nothing can be captured.
  static bool IsLegacy(CudaStream stream) { return !stream || reinterpret_cast<std::uintptr_t>(stream) <= 2; }

  const std::shared_ptr<CudaPool> pool_;
  const CudaDriver& driver_;
  const int who_;
  Stream compute_, out_, in_;

  std::vector<Op> open_;  // begun and not ended; one may ask for more within another
  std::vector<Queued> queued_;
  std::vector<CopySpan> spans_;
  Ticket tickets_ = 0;

  CudaEvent start_ = nullptr;  // of the clock
  Nanos base_ = 0;
  bool touched_ = true;  // compute, since the last mark
  bool capturing_ = false;
  std::vector<CudaEvent> marks_;
  std::vector<Nanos> times_;  // of marks, as far as they are known
};

Gpu::~Gpu() {
  Drain();
  const CudaPrimary::Current current(*pool_->primary);
  if (start_) driver_.EventDestroy(start_);
  for (const Stream* const stream : {&compute_, &out_, &in_}) {
    if (stream->number >= 0) pool_->streams.Remove(stream->number);
  }
  for (const Stream* const stream : {&out_, &in_}) {
    if (stream->handle) driver_.StreamDestroy(stream->handle);
  }
  pool_->holdings.LetGoAll(who_);
}

// The operation has begun (CudaStreams).
Status Gpu::Submit(const Stream& stream, bool to_device, Bytes address, const std::byte* host, Bytes bytes) {
  const CudaAddress device = pool_->address + static_cast<CudaAddress>(address);
  for (Bytes done = 0; done < bytes;) {
    const Bytes part = pool_->pinned->Alike(host + done, bytes - done);
    const CudaAddress there = device + static_cast<CudaAddress>(done), here = Number(host + done);
    const int code = driver_.MemcpyAsync(to_device ? there : here, to_device ? here : there,
                                         static_cast<std::size_t>(part), stream.handle);
    EBB_RETURN_IF_ERROR(Check(code, "cuMemcpyAsync"));
    done += part;
  }
  return {};
}

Status Gpu::Copy(const Stream& stream, bool to_device, Bytes address, const std::byte* host, Bytes bytes) {
  if (bytes == 0) return {};
  const CudaPrimary::Current current(*pool_->primary);
  EBB_RETURN_IF_ERROR(pool_->streams.Begin(stream.number, TouchesOf(to_device, address, host, bytes)));
  touched_ = touched_ || &stream == &compute_;
  const Status submitted = Submit(stream, to_device, address, host, bytes);
  pool_->streams.End(stream.number);
  return submitted;
}

Result<Ticket> Gpu::Queue(const Stream& stream, bool to_device, Bytes address, const std::byte* host, Bytes bytes) {
  const CudaPrimary::Current current(*pool_->primary);
  EBB_ASSIGN_OR_RETURN(const CudaEvent begin, pool_->streams.TakeEvent(stream.number));
  EBB_RETURN_IF_ERROR(pool_->streams.Begin(stream.number, TouchesOf(to_device, address, host, bytes)));
  Status submitted = Check(driver_.EventRecord(begin, stream.handle), "cuEventRecord");
  if (submitted) submitted = Submit(stream, to_device, address, host, bytes);
  pool_->streams.End(stream.number);
  EBB_RETURN_IF_ERROR(submitted);
  EBB_ASSIGN_OR_RETURN(const CudaEvent end, pool_->streams.Record(stream.number));
  const Ticket ticket = ++tickets_ * 2 + (to_device ? 1 : 0);
  queued_.push_back({ticket, begin, end});
  return ticket;
}

Status Gpu::BeginOp(const char* name, std::span<const Used> accesses) {
  std::vector<Touch> touches;
  for (const Used& access : accesses) {
    if (access.bytes <= 0) continue;
    const CudaAddress begin = pool_->address + static_cast<CudaAddress>(access.address);
    touches.push_back({begin, begin + static_cast<CudaAddress>(access.bytes), access.writes});
  }
  EBB_ASSIGN_OR_RETURN(const bool waits, pool_->streams.Begin(compute_.number, touches));
  touched_ = touched_ || waits;
  open_.push_back({name, {accesses.begin(), accesses.end()}});
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
  pool_->streams.End(compute_.number);
  touched_ = true;
}

void Gpu::Tell(const Op& op) {
  for (const Used& access : op.accesses) {
    if (access.bytes <= 0) continue;
    Phantom().declare(compute_.handle, At(access.address), static_cast<std::size_t>(access.bytes), access.writes,
                      op.name);
  }
}

Status Gpu::HostWaits() {
  const CudaPrimary::Current current(*pool_->primary);
  EBB_RETURN_IF_ERROR(Check(driver_.StreamSynchronize(compute_.handle), "cuStreamSynchronize"));
  pool_->streams.HostWaited(compute_.number);
  return {};
}

void Gpu::Drain() {
  const CudaPrimary::Current current(*pool_->primary);
  for (const Stream* const stream : {&compute_, &out_, &in_}) {
    // A second time where the first is refused: memory must not be taken back before.
    if (driver_.StreamSynchronize(stream->handle) != 0) driver_.StreamSynchronize(stream->handle);
  }
  for (const Queued& copy : queued_) spans_.push_back({copy.ticket, TimeOf(copy.begin), TimeOf(copy.end)});
  queued_.clear();
  for (std::size_t i = times_.size(); i < marks_.size(); ++i) times_.push_back(TimeOf(marks_[i]));
  if (compute_.number < 0) return;
  const int streams[] = {compute_.number, out_.number, in_.number};
  pool_->streams.Drained(streams);
}

Nanos Gpu::TimeOf(CudaEvent event) const {
  float milliseconds = 0;
  if (!start_ || driver_.EventElapsedTime(&milliseconds, start_, event) != 0) return base_;
  return base_ + static_cast<Nanos>(std::llround(static_cast<double>(milliseconds) * 1e6));
}

Status Gpu::BeginCapture() {
  const CudaPrimary::Current current(*pool_->primary);
  EBB_RETURN_IF_ERROR(Check(driver_.StreamBeginCapture(compute_.handle, kThreadLocal), "cuStreamBeginCapture"));
  capturing_ = true;
  if (Phantom().there()) Phantom().begin("a capture", nullptr);
  return {};
}

Result<std::shared_ptr<CapturedWork>> Gpu::EndCapture() {
  const CudaPrimary::Current current(*pool_->primary);
  capturing_ = false;
  if (Phantom().there()) Phantom().end();
  CudaGraph graph = nullptr;
  int ended = driver_.StreamEndCapture(compute_.handle, &graph);
  // A second time where the first is refused: the stream must not go on capturing.
  if (ended != 0) ended = driver_.StreamEndCapture(compute_.handle, &graph);
  EBB_RETURN_IF_ERROR(Check(ended, "cuStreamEndCapture"));
  CudaGraphExec executable = nullptr;
  const int code = driver_.GraphInstantiate(&executable, graph, 0);
  driver_.GraphDestroy(graph);
  EBB_RETURN_IF_ERROR(Check(code, "cuGraphInstantiate"));
  return std::make_shared<CudaCapturedWork>(pool_, executable);
}

Status Gpu::Launch(CapturedWork& work) {
  const CudaPrimary::Current current(*pool_->primary);
  touched_ = true;
  return Check(driver_.GraphLaunch(static_cast<CudaCapturedWork&>(work).executable(), compute_.handle),
               "cuGraphLaunch");
}

void Gpu::StartClock() {
  const CudaPrimary::Current current(*pool_->primary);
  if (!start_ && driver_.EventCreate(&start_, 0) != 0) start_ = nullptr;
  base_ = Now();
  if (start_) driver_.EventRecord(start_, compute_.handle);
  marks_.clear();
  times_.clear();
  touched_ = true;
}

Nanos Gpu::Mark() {
  if (touched_ && !capturing_) {
    const Result<CudaEvent> event = pool_->streams.Record(compute_.number);
    if (event) marks_.push_back(*event), touched_ = false;
  }
  return static_cast<Nanos>(marks_.size());
}

}  // namespace

Result<std::shared_ptr<CudaDevice>> MakeCudaDevice(const CudaDeviceOptions& options) {
  if (options.capacity < 0 || options.capacity > kTooLarge)
    return Fail("a pool of {} bytes: expected fewer", options.capacity);
  EBB_ASSIGN_OR_RETURN(std::shared_ptr<CudaPrimary> primary, CudaPrimary::Make(options.ordinal));
  auto pool = std::make_shared<CudaPool>(std::move(primary), options);
  auto gpu = std::make_shared<Gpu>(pool);
  EBB_RETURN_IF_ERROR(gpu->Start());
  EBB_RETURN_IF_ERROR(pool->Start());
  return gpu;
}

}  // namespace ebbtide::run
