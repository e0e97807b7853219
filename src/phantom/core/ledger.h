// Whose the device's memory is, to the byte. Alone in a process, or shared by all processes that give the same
// EBBTIDE_PHANTOM_SHARED: what a process held is free again when it ends, however it ends.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "base/units.h"

namespace ebbtide::phantom {

class Ledger {
 public:
  struct Holder {
    int pid = 0;
    Bytes bytes = 0;
  };

  // `shared`: the name of the shared device, or empty. `gpu`: the number by which this process knows the device.
  Ledger(Bytes capacity, const std::string& shared, int gpu = 0);

  // False: not that much is free, and nothing was taken.
  bool Take(Bytes bytes);
  void Give(Bytes bytes);
  // The process ends: the last one on a shared device removes its table.
  void Leave();

  int gpu() const { return gpu_; }
  Bytes capacity() const { return capacity_; }
  Bytes own() const { return own_; }            // held by this process
  Bytes own_peak() const { return own_peak_; }  // the most it ever held
  Bytes all() const;                            // held by all processes on the device
  Bytes all_peak() const;                       // the most that all of them held at a time
  std::vector<Holder> holders() const;          // those that hold anything

 private:
  struct SharedTable;

  void OpenShared(const std::string& name);
  bool OpenAndLock(const std::string& name);
  void ClaimSlot();
  bool Lock() const;
  void Unlock() const;
  bool SlotIsDead(int slot) const;
  Bytes SumShared() const;

  const Bytes capacity_;
  const int gpu_;
  mutable std::mutex mutex_;
  std::atomic<Bytes> own_{0};  // written under the mutex
  std::atomic<Bytes> own_peak_{0};
  std::string path_;  // of the shared table
  int fd_ = -1;
  int slot_ = -1;
  SharedTable* table_ = nullptr;
};

}  // namespace ebbtide::phantom
