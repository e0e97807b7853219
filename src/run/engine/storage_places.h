// Where each storage lies while an iteration runs, told to whoever runs the ops.
#pragma once

#include <vector>

#include "run/engine/prepared_step.h"
#include "run/engine/step_recorder.h"
#include "run/engine/step_report.h"

namespace ebbtide::run {

class StoragePlaces {
 public:
  // Both arguments must outlive this.
  StoragePlaces(const PreparedStep& step, StepRecorder& recorder);

  // An iteration begins: state is at home, and nothing else is there.
  void Start();
  // Storages that lie outside the pool, for the duration of a call.
  void EnterOutside(const StepCall& call);
  void LeaveOutside(const StepCall& call);

  // The storage's contents are, or will be, at the address.
  void Begin(StorageId storage, Bytes address);
  // The storage is no longer on the device; its bytes of a lane are let go of. It may not have been there.
  void End(StorageId storage);
  // All but state, which is at home by now.
  void EndAll();
  // State that the iteration has left elsewhere goes back to where the next one expects it.
  RunStatus BringHome();

  // Relative to the pool, also of what lies outside it; -1: it is not on the device.
  Bytes AddressOf(StorageId storage) const {
    return outside_[storage] ? outside_[storage] - step_.device().At(0) : at_[storage];
  }
  // Whether it has left the device in this iteration.
  bool has_left(StorageId storage) const { return has_left_[storage]; }

 private:
  const PreparedStep& step_;
  StepRecorder& recorder_;
  IdVector<StorageId, Bytes> at_;  // its address in the pool; -1: it is not there
  IdVector<StorageId, bool> has_left_;
  IdVector<StorageId, std::byte*> outside_;  // where it lies, if outside the pool
};

}  // namespace ebbtide::run
