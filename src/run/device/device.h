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
#include "run/device/clock.h"

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

// What compute was given between BeginCapture and EndCapture. It must not outlive the device's driver; the device keeps
// it no longer than its owner does.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
};

class PoolHoldings;  // pool_holdings.h

// Not thread-safe: one thread drives it. An error means that the call had no effect, except where it says otherwise.
class Device {
 public:
  virtual ~Device() = default;

  virtual Bytes capacity() const = 0;
  // The address as kernels take it.
  virtual std::byte* At(Bytes address) = 0;
  // Memory that ops are given begins at multiples of this.
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

  // The copies that are done and were not told by an earlier call. After a Drain, all of them are done.
  virtual std::vector<CopySpan> TakeCopies() = 0;

  // Copies on the compute stream, in order with the ops. The host's memory may be used when they return.
  virtual Status Read(Bytes address, std::byte* host, Bytes bytes) = 0;
  virtual Status Write(const std::byte* host, Bytes address, Bytes bytes) = 0;
  // The same between the pool and memory of MakeHostMemory. The host leaves that memory alone until it has drained the
  // device: these may return before the copy is made.
  virtual Status Save(Bytes address, std::byte* host, Bytes bytes) { return Read(address, host, bytes); }
  virtual Status Restore(const std::byte* host, Bytes address, Bytes bytes) { return Write(host, address, bytes); }

  // Another device on the same pool, with streams of its own, for another thread to drive. On a GPU, where streams of
  // one device come to memory that those of another have used, they wait for them. On the CPU there is nothing to wait
  // for: what was awaited is over.
  virtual Result<std::shared_ptr<Device>> Beside() = 0;
  // Who holds which bytes of the pool, among all devices on it; null where nobody counts. From Hold on the bytes are
  // this device's, until it lets go of them; Hold fails where they are another's.
  virtual PoolHoldings* holdings() { return nullptr; }
  virtual Status Hold(Bytes /*address*/, Bytes /*bytes*/) { return {}; }
  virtual void LetGo(Bytes /*address*/) {}

  // From now on ops run on this stream. A device without streams ignores it.
  virtual void SetCompute(void* /*stream*/) {}
  // Called around what is given to compute, with all bytes of the pool that it touches.
  virtual Status BeginOp(const char* /*name*/, std::span<const Used> /*accesses*/) { return {}; }
  virtual void EndOp() {}

  // Work that is given to compute once and launched many times, at the addresses that it had. From BeginCapture on what
  // is given to compute is not done; nothing else of the device may be called meanwhile but At, Mark and EndCapture.
  // Where EndCapture fails, all that was given since is forgotten, and it may be given again without a capture.
  virtual bool captures() const { return false; }
  virtual Status BeginCapture() { return Fail("the device captures nothing"); }
  virtual Result<std::shared_ptr<CapturedWork>> EndCapture() { return Fail("the device captures nothing"); }
  virtual Status Launch(CapturedWork& /*work*/) { return Fail("the device captures nothing"); }

  // Mark gives a moment of compute: when it has done all that it was given so far. When tells the time of it, by
  // run::Now, after a Drain. StartClock forgets the moments before it.
  virtual void StartClock() {}
  virtual Nanos Mark() { return Now(); }
  virtual Nanos When(Nanos mark) const { return mark; }
};

}  // namespace ebbtide::run
