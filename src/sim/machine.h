// The device as a planner drives it: ops, recomputations, copies and drops, one at a time. It keeps the clocks and the
// bytes by the rules of simulate.h, and writes down the schedule that comes about.
//
// A copy to the host that was begun for a storage which then never leaves is not in the schedule; so the schedule's
// own simulation takes as long as the machine's clock says, or less.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "sim/schedule.h"
#include "sim/workload.h"

namespace ebbtide::sim {

class Machine {
 public:
  // `workload` must outlive the machine. `record`: whether to keep what TakeSchedule gives.
  Machine(const Workload& workload, const Link& link, bool record);

  // ---- What is where
  bool OnDevice(StorageId s) const { return on_device_[s]; }
  // The host has, or is getting, the storage's present contents.
  bool OnHost(StorageId s) const { return on_host_[s]; }
  // When the copy to the host is complete. Only for a storage that is OnHost.
  Nanos HostReady(StorageId s) const { return host_ready_[s]; }
  // No copy to the device that nobody has waited for may be writing it.
  bool Settled(StorageId s) const { return settled_[s]; }
  // When the stream to the host has done what it was given.
  Nanos out_free() const { return out_free_; }
  Bytes used() const { return used_; }
  Bytes host_used() const { return host_used_; }
  Bytes host_peak() const { return host_peak_; }
  Nanos now() const { return now_; }
  // Runs of ops so far.
  std::size_t steps() const { return next_step_.index(); }
  // When all streams are done.
  Nanos finish() const { return std::max({now_, out_free_, in_free_, exchange_free_}); }
  // Bytes that `op` takes while it runs beside what is there; `again`: as a recomputation.
  Bytes RoomFor(OpId op, bool again) const;

  // ---- What happens
  // All of the op's needs are on the device or on their way.
  void Run(OpId op, bool again);
  // The storage leaves the device: for good, or because the host has it, or because it is made again later.
  void Drop(StorageId s, End end);
  void BeginCopyOut(StorageId s);
  // Waits for the copy to the host, and drops.
  void FinishCopyOut(StorageId s);
  // Takes the memory; the copy is queued when this boundary's waits are over. `next_need`: the graph's next op that
  // needs it; none: no op does.
  void BeginCopyIn(StorageId s, OpId next_need);

  // Ends the iteration.
  Schedule TakeSchedule();

 private:
  struct Coming {
    OpId next_need;  // none: no op needs it
    StorageId storage;
  };
  void BeginStay(StorageId s, Begin begin);
  void EndStay(StorageId s, End end);
  void ForgetHostCopy(StorageId s);
  void QueueComing();
  // The op on the communication stream; all it needs is there at `ready`.
  void Exchange(OpId op, bool again, Nanos ready);
  // When nothing on the communication stream uses it.
  Nanos Unused(StorageId s) const { return exchanged_.empty() ? 0 : exchanged_[s]; }

  const Workload* workload_;
  Link link_;
  bool record_;
  Nanos now_ = 0, step_end_ = 0, out_free_ = 0, in_free_ = 0, exchange_free_ = 0;
  Bytes used_ = 0, host_used_ = 0, host_peak_ = 0;
  StepId next_step_{0};
  IdVector<StorageId, std::uint8_t> on_device_, on_host_, settled_;
  IdVector<StorageId, Nanos> host_ready_;
  IdVector<StorageId, Nanos> arrival_;    // when what the host or other ranks send is there
  IdVector<StorageId, Nanos> exchanged_;  // when the communication stream is done with it; empty without one
  std::vector<Coming> coming_;
  // ---- The record
  IdVector<StorageId, Stay> open_;  // the stay it is in
  std::uint32_t copies_out_ = 0;
  Schedule schedule_;
};

}  // namespace ebbtide::sim
