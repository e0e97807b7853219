// A device of which one call fails, for tests: every failure that a real one could have can be had in turn.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "run/device/device.h"

namespace ebbtide::run {

class FailingDevice final : public Device {
 public:
  explicit FailingDevice(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // Of the calls from now on that can fail, the n-th does; 0: none does.
  void FailAt(std::int64_t call) { fail_at_ = call; }
  // How many calls there were that can fail.
  std::int64_t calls() const { return calls_; }

  Bytes capacity() const override { return device_->capacity(); }
  std::byte* At(Bytes address) override { return device_->At(address); }
  Result<std::shared_ptr<HostMemory>> MakeHostMemory(Bytes bytes) override {
    if (Fails()) return Fail("the host has no memory for {} bytes", bytes);
    return device_->MakeHostMemory(bytes);
  }
  Result<Ticket> CopyOut(Bytes address, std::byte* host, Bytes bytes) override {
    if (Fails()) return Fail("a copy to the host cannot be queued");
    return device_->CopyOut(address, host, bytes);
  }
  Result<Ticket> CopyIn(const std::byte* host, Bytes address, Bytes bytes) override {
    if (Fails()) return Fail("a copy to the device cannot be queued");
    return device_->CopyIn(host, address, bytes);
  }
  Status Await(Ticket ticket) override {
    const Status done = device_->Await(ticket);
    if (Fails()) return Fail("a copy has failed");
    return done;
  }
  void Drain() override { device_->Drain(); }
  std::vector<CopySpan> TakeCopies() override { return device_->TakeCopies(); }
  Status Read(Bytes address, std::byte* host, Bytes bytes) override {
    if (Fails()) return Fail("device memory cannot be read");
    return device_->Read(address, host, bytes);
  }
  Status Write(const std::byte* host, Bytes address, Bytes bytes) override {
    if (Fails()) return Fail("device memory cannot be written");
    return device_->Write(host, address, bytes);
  }
  Status Save(Bytes address, std::byte* host, Bytes bytes) override {
    if (Fails()) return Fail("device memory cannot be read");
    return device_->Save(address, host, bytes);
  }
  Status Restore(const std::byte* host, Bytes address, Bytes bytes) override {
    if (Fails()) return Fail("device memory cannot be written");
    return device_->Restore(host, address, bytes);
  }
  Result<std::shared_ptr<Device>> Beside() override { return device_->Beside(); }
  PoolHoldings* holdings() override { return device_->holdings(); }
  Status Hold(Bytes address, Bytes bytes) override { return device_->Hold(address, bytes); }
  void LetGo(Bytes address) override { device_->LetGo(address); }
  Bytes alignment() const override { return device_->alignment(); }
  void SetCompute(void* stream) override { device_->SetCompute(stream); }
  Status BeginOp(const char* name, std::span<const Used> accesses) override { return device_->BeginOp(name, accesses); }
  void EndOp() override { device_->EndOp(); }
  bool captures() const override { return device_->captures(); }
  Status BeginCapture() override {
    if (Fails()) return Fail("nothing can be captured");
    return device_->BeginCapture();
  }
  Result<std::shared_ptr<CapturedWork>> EndCapture() override {
    Result<std::shared_ptr<CapturedWork>> work = device_->EndCapture();
    if (Fails()) return Fail("a capture has failed");
    return work;
  }
  Status Launch(CapturedWork& work) override {
    if (Fails()) return Fail("captured work cannot be launched");
    return device_->Launch(work);
  }
  void StartClock() override { device_->StartClock(); }
  Nanos Mark() override { return device_->Mark(); }
  Nanos When(Nanos mark) const override { return device_->When(mark); }

 private:
  bool Fails() {
    ++calls_;
    return fail_at_ > 0 && --fail_at_ == 0;
  }

  const std::shared_ptr<Device> device_;
  std::int64_t fail_at_ = 0, calls_ = 0;
};

}  // namespace ebbtide::run
