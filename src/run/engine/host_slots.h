// Memory of the host that a plan's steps need: for storages that are copied out, for what a step that fails is undone
// with, and for state that an op which runs again may not change.
#pragma once

#include <memory>
#include <vector>

#include "run/device/device.h"
#include "run/engine/program.h"

namespace ebbtide::run {

class HostSlots {
 public:
  // The program is one of the schedule, wherever it was placed.
  static Result<HostSlots> Make(const TrainingGraph& graph, const sim::Workload& workload,
                                const sim::Schedule& schedule, const Program& program, Device& device);

  // Whether the plan copies the storage out. Only such have a place for it.
  bool IsCopied(StorageId storage) const { return copy_[storage] >= 0; }
  std::byte* CopyOf(StorageId storage) const { return memory_->data() + copy_[storage]; }
  // Only of the program's `undo`.
  std::byte* BeforeStep(StorageId storage) const { return memory_->data() + before_step_[storage]; }
  // For the `protect` of an instruction that runs again, one after the other: as it is now.
  std::byte* protect() const { return memory_->data() + protect_; }
  // The same, as the first run of its op found it.
  std::byte* FoundBy(const Instruction& instruction) const { return memory_->data() + found_ + instruction.found; }
  // Of device memory that copies are made of.
  Bytes copied_bytes() const { return copied_bytes_; }

 private:
  std::shared_ptr<HostMemory> memory_;
  IdVector<StorageId, Bytes> copy_, before_step_;  // -1: it has none
  Bytes protect_ = 0, found_ = 0, copied_bytes_ = 0;
};

}  // namespace ebbtide::run
