// A device as the engine drives it: one pool of memory, a stream of ops, and a stream of copies each way.   ◀ start
// here
//
// Addresses are offsets into the pool, from 0 to capacity. "Compute" is the stream that the ops run on; where ops run
// on the calling thread, as on the CPU, waiting means that the call returns later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "run/clock.h"

namespace ebbtide::run {

// A copy that was queued. Each device counts its own, from 1.
using Ticket = std::uint64_t;

// When a copy ran, by run::Now.
struct CopySpan {
  Ticket ticket = 0;
  Nanos begin = 0, end = 0;
};

// Bytes of the pool that an op reads or writes.
struct Used {
  Bytes address = 0, bytes = 0;
  bool writes = false;
};

// Memory of the host that copies go to and come from. Freed with the last reference.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  virtual std::byte* data() = 0;
};

class Ledger;  // ledger.h

// Not thread-safe: one thread drives it. An error means that the call had no effect, except where it says otherwise.
class Device {
 public:
  virtual ~Device() = default;

  virtual Bytes capacity() const = 0;
  // The address as kernels take it.
  virtual std::byte* At(Bytes address) = 0;
  // Of memory that ops are given.
  virtual Bytes alignment() const { return 64; }
  virtual Result<std::shared_ptr<HostMemory>> MakeHostMemory(Bytes bytes) = 0;

  // Queues a copy on the stream of its direction. It begins when compute has done what it was given before, as far as
  // that uses memory of the copy, and the copies before it on its stream are done. The memory on both sides is left
  // alone until it was awaited.
  virtual Result<Ticket> CopyOut(Bytes address, std::byte* host, Bytes bytes) = 0;
  virtual Result<Ticket> CopyIn(const std::byte* host, Bytes address, Bytes bytes) = 0;
  // Compute waits for the copy, at the latest where an op comes to memory that it uses (BeginOp). An error: it failed,
  // and may be queued again.
  virtual Status Await(Ticket ticket) = 0;
  // The calling thread waits for all streams. What failed is forgotten.
  virtual void Drain() = 0;

  // The copies that are done, of those since the last call. All are, after a Drain.
  virtual std::vector<CopySpan> TakeCopies() = 0;

  // On the compute stream, in order with the ops; the host's memory may be used when they return.
  virtual Status Read(Bytes address, std::byte* host, Bytes bytes) = 0;
  virtual Status Write(const std::byte* host, Bytes address, Bytes bytes) = 0;
  // As these, between the pool and memory of MakeHostMemory, which the host leaves alone until it has drained the
  // device.
  virtual Status Save(Bytes address, std::byte* host, Bytes bytes) { return Read(address, host, bytes); }
  virtual Status Restore(const std::byte* host, Bytes address, Bytes bytes) { return Write(host, address, bytes); }

  // Another device on the same pool, with streams of its own, for another thread to drive. What compute and copies of
  // one come to after those of another they wait for, on a GPU; on the CPU, what was awaited is over.
  virtual Result<std::shared_ptr<Device>> Beside() = 0;
  // Of all devices on the pool, where it has one; the bytes are this device's until it lets go of them. Fails where
  // they are another's.
  virtual Ledger* ledger() { return nullptr; }
  virtual Status Hold(Bytes /*address*/, Bytes /*bytes*/) { return {}; }
  virtual void LetGo(Bytes /*address*/) {}

  // The stream that ops run on from now on, where the device has such.
  virtual void SetCompute(void* /*stream*/) {}
  // Around what is given to compute: all of the pool that it touches.
  virtual Status BeginOp(const char* /*name*/, std::span<const Used> /*accesses*/) { return {}; }
  virtual void EndOp() {}

  // Moments of compute, after all that it was given. When() tells the time of one, by run::Now, after a Drain;
  // StartClock forgets those before it.
  virtual void StartClock() {}
  virtual Nanos Mark() { return Now(); }
  virtual Nanos When(Nanos mark) const { return mark; }
};

}  // namespace ebbtide::run
