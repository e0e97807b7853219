// A device whose pool is pages of the host, with a thread for copies each way.
#include "run/device/cpu_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "run/device/copy_thread.h"
#include "run/device/pool_holdings.h"

namespace ebbtide::run {
namespace {

constexpr std::size_t kPage = 4096;

// Pages that take memory once they are written.
class Pages final : public HostMemory {
 public:
  // `guard`: what is behind the last page may not be touched.
  static std::shared_ptr<Pages> Make(Bytes bytes, bool guard) {
    const std::size_t size = (static_cast<std::size_t>(bytes) + kPage - 1) / kPage * kPage;
    const std::size_t mapped = size + (guard ? kPage : 0);
    if (mapped == 0) return std::shared_ptr<Pages>(new Pages(nullptr, 0));
    void* data = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    std::shared_ptr<Pages> out(new Pages(static_cast<std::byte*>(data), mapped));
    if (guard && mprotect(out->data_ + size, kPage, PROT_NONE) != 0) return nullptr;
    return out;
  }
  ~Pages() override {
    if (data_) munmap(data_, mapped_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* data() override { return data_; }

 private:
  Pages(std::byte* data, std::size_t mapped) : data_(data), mapped_(mapped) {}
  std::byte* const data_;
  const std::size_t mapped_;
};

class CpuDevice final : public Device {
 public:
  CpuDevice(const CpuDeviceOptions& options, std::shared_ptr<Pages> pool, std::shared_ptr<PoolHoldings> holdings)
      : options_(options),
        pool_(std::move(pool)),
        holdings_(std::move(holdings)),
        who_(holdings_->Join()),
        out_(options.to_host, options.latency),
        in_(options.to_device, options.latency) {}
  ~CpuDevice() override { holdings_->LetGoAll(who_); }

  Bytes capacity() const override { return options_.capacity; }
  std::byte* At(Bytes address) override { return pool_->data() + address; }

  Result<std::shared_ptr<HostMemory>> MakeHostMemory(Bytes bytes) override {
    std::shared_ptr<HostMemory> made = Pages::Make(bytes, false);
    if (!made) return Fail("the host has no memory for {}", FormatBytes(bytes));
    return made;
  }

  // Compute is the calling thread: what it was given before is done. Tickets of copies in are odd.
  Result<Ticket> CopyOut(Bytes address, std::byte* host, Bytes bytes) override {
    return out_.Queue(At(address), host, bytes) * 2;
  }
  Result<Ticket> CopyIn(const std::byte* host, Bytes address, Bytes bytes) override {
    return in_.Queue(host, At(address), bytes) * 2 + 1;
  }
  Status Await(Ticket ticket) override {
    (ticket % 2 == 0 ? out_ : in_).Await(ticket / 2);
    return {};
  }
  void Drain() override {
    out_.Drain();
    in_.Drain();
  }

  std::vector<CopySpan> TakeCopies() override {
    std::vector<CopySpan> out = out_.TakeSpans();
    for (CopySpan& span : out) span.ticket *= 2;
    for (const CopySpan& span : in_.TakeSpans()) out.push_back({span.ticket * 2 + 1, span.begin, span.end});
    return out;
  }

  Status Read(Bytes address, std::byte* host, Bytes bytes) override {
    if (bytes > 0) std::memcpy(host, At(address), static_cast<std::size_t>(bytes));
    return {};
  }
  Status Write(const std::byte* host, Bytes address, Bytes bytes) override {
    if (bytes > 0) std::memcpy(At(address), host, static_cast<std::size_t>(bytes));
    return {};
  }

  Result<std::shared_ptr<Device>> Beside() override { return std::make_shared<CpuDevice>(options_, pool_, holdings_); }
  PoolHoldings* holdings() override { return holdings_.get(); }
  Status Hold(Bytes address, Bytes bytes) override { return holdings_->Hold(who_, address, bytes); }
  void LetGo(Bytes address) override { holdings_->LetGo(who_, address); }

 private:
  const CpuDeviceOptions options_;
  const std::shared_ptr<Pages> pool_;
  const std::shared_ptr<PoolHoldings> holdings_;
  const int who_;
  CopyThread out_, in_;
};

}  // namespace

Result<std::shared_ptr<Device>> MakeCpuDevice(const CpuDeviceOptions& options) {
  if (options.capacity < 0 || options.capacity > kTooLarge)
    return Fail("a pool of {} bytes: expected fewer", options.capacity);
  std::shared_ptr<Pages> pool = Pages::Make(options.capacity, true);
  if (!pool) return Fail("the machine has no memory for a pool of {}", FormatBytes(options.capacity));
  return std::make_shared<CpuDevice>(options, std::move(pool), std::make_shared<PoolHoldings>());
}

}  // namespace ebbtide::run
