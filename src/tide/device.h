// What the tide allocator stands on: pages of a device, and points in the work of its streams. One implementation over
// the models here, for replays; one over CUDA's driver in cuda_device.h.
#pragma once

#include <cstdint>
#include <optional>

#include "tide/names.h"

namespace ebbtide::tide {

// The allocator calls it under its lock: one call at a time.
class TideDevice {
 public:
  virtual ~TideDevice() = default;

  virtual Bytes total() const = 0;
  // Addresses without memory, whole pages (DeviceMemory::kGranule).
  virtual std::optional<Address> Reserve(Bytes bytes) = 0;
  // Puts memory behind whole pages that have none. False: the device refused, and nothing has changed.
  virtual bool Map(Address begin, Bytes bytes) = 0;
  // Gives back the memory behind whole pages. Nothing on the device uses them any more.
  virtual void Unmap(Address begin, Bytes bytes) = 0;

  // The point behind all that was submitted to the stream so far.
  virtual Event Record(StreamId stream) = 0;
  // How far the stream has got: points up to this position are reached.
  virtual std::int64_t Finished(StreamId stream) = 0;
  // What is submitted to `stream` from now on begins after the event. The host goes on.
  virtual void StreamWaits(StreamId stream, const Event& event) = 0;
  // Returns when the event is reached.
  virtual void HostWaits(const Event& event) = 0;
  // The bytes are about to be used by work of the stream.
  virtual void Handed(Address /*begin*/, Bytes /*bytes*/, StreamId /*stream*/) {}
};

// Over the models of device and streams. A wait of a stream for another takes no effect there.
class ModelTideDevice final : public TideDevice {
 public:
  ModelTideDevice(DeviceMemory& device, Streams& streams) : device_(&device), streams_(&streams) {}

  Bytes total() const override { return device_->total(); }
  std::optional<Address> Reserve(Bytes bytes) override { return device_->Reserve(bytes); }
  bool Map(Address /*begin*/, Bytes bytes) override { return device_->Take(bytes); }
  void Unmap(Address /*begin*/, Bytes bytes) override { device_->Give(bytes); }
  Event Record(StreamId stream) override { return streams_->Record(stream); }
  std::int64_t Finished(StreamId stream) override { return streams_->finished(stream); }
  void StreamWaits(StreamId /*stream*/, const Event& /*event*/) override {}
  void HostWaits(const Event& event) override { streams_->Wait(event); }

 private:
  DeviceMemory* device_;
  Streams* streams_;
};

}  // namespace ebbtide::tide
