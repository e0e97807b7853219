// The clocks and bytes of a device that a planner drives, and the schedule that comes about.
#include "sim/machine.h"

#include <algorithm>
#include <cassert>
#include <tuple>

namespace ebbtide::sim {

Machine::Machine(const Workload& workload, const Link& link, bool record)
    : workload_(&workload),
      link_(link),
      record_(record),
      on_device_(workload.storages()),
      on_host_(workload.storages()),
      settled_(workload.storages(), true),
      host_ready_(workload.storages()),
      arrival_(workload.storages()),
      exchanged_(workload.HasExchanges() ? workload.storages() : 0),
      open_(record ? workload.storages() : 0) {
  for (const StorageId s : workload.storage_ids()) {
    if (workload.IsState(s)) BeginStay(s, Begin::kPresent);
  }
}

void Machine::BeginStay(StorageId s, Begin begin) {
  assert(!on_device_[s]);
  on_device_[s] = true;
  used_ += workload_->bytes[s];
  if (record_) open_[s] = {.storage = s, .from = next_step_, .begin = begin, .end = End::kFree};
}

void Machine::EndStay(StorageId s, End end) {
  assert(on_device_[s]);
  on_device_[s] = false;
  used_ -= workload_->bytes[s];
  if (!record_) return;
  open_[s].to = next_step_;
  open_[s].end = end;
  schedule_.stays.push_back(open_[s]);
}

void Machine::ForgetHostCopy(StorageId s) {
  if (!on_host_[s]) return;
  on_host_[s] = false;
  host_used_ -= workload_->bytes[s];
}

Bytes Machine::RoomFor(OpId op, bool again) const {
  Bytes room = workload_->workspace[op];
  for (const StorageId s : workload_->births[op]) {
    if (again || !on_device_[s]) room += workload_->bytes[s];
  }
  return room;
}

void Machine::QueueComing() {
  if (coming_.empty()) return;
  std::ranges::sort(coming_, {},
                    [](const Coming& coming) { return std::pair(NoneLast(coming.next_need), coming.storage); });
  for (const Coming& coming : coming_) {
    const StorageId s = coming.storage;
    arrival_[s] = in_free_ = std::max(in_free_, now_) + link_.TimeIn(workload_->bytes[s]);
  }
  coming_.clear();
}

void Machine::Run(OpId op, bool again) {
  QueueComing();
  Nanos ready = now_;
  for (const StorageId s : workload_->needs[op]) {
    assert(on_device_[s]);
    ready = std::max(ready, arrival_[s]);
    if (!settled_[s]) now_ = std::max(now_, arrival_[s]);
    settled_[s] = true;
  }
  for (const StorageId s : workload_->births[op]) {
    if (!on_device_[s]) BeginStay(s, again ? Begin::kRecompute : Begin::kCompute);
  }
  // A change that is only repeated leaves what the host has as it is.
  if (!again) {
    for (const StorageId s : workload_->changes[op]) ForgetHostCopy(s);
  }
  if (record_) schedule_.steps.push_back(op);
  ++next_step_;
  if (workload_->RunsBeside(op)) {
    Exchange(op, again, ready);
  } else {
    for (const StorageId s : workload_->changes[op]) ready = std::max(ready, Unused(s));
    now_ = ready + workload_->time[op];
  }
  step_end_ = now_;
}

void Machine::Exchange(OpId op, bool again, Nanos ready) {
  Nanos begin = std::max(ready, exchange_free_);
  if (workload_->exchanges_use_host_link) begin = std::max({begin, out_free_, in_free_});
  exchange_free_ = begin + workload_->exchange[op];
  if (workload_->exchanges_use_host_link) out_free_ = in_free_ = exchange_free_;
  if (again) {
    now_ = exchange_free_;
    return;
  }
  for (const StorageId s : workload_->needs[op]) exchanged_[s] = exchange_free_;
  for (const StorageId s : workload_->births[op]) exchanged_[s] = arrival_[s] = exchange_free_;
  for (const StorageId s : workload_->changes[op]) arrival_[s] = exchange_free_;
}

void Machine::Drop(StorageId s, End end) {
  now_ = std::max(now_, Unused(s));
  EndStay(s, end);
  if (end == End::kFree) ForgetHostCopy(s);
}

void Machine::BeginCopyOut(StorageId s) {
  assert(on_device_[s] && !on_host_[s]);
  on_host_[s] = true;
  host_used_ += workload_->bytes[s];
  host_peak_ = std::max(host_peak_, host_used_);
  host_ready_[s] = out_free_ = std::max({out_free_, step_end_, arrival_[s]}) + link_.TimeOut(workload_->bytes[s]);
  if (record_) open_[s].leave = next_step_, open_[s].turn = copies_out_++, open_[s].end = End::kCopyOut;
}

void Machine::FinishCopyOut(StorageId s) {
  assert(on_host_[s]);
  now_ = std::max({now_, host_ready_[s], Unused(s)});
  // A stay that began by a copy-in and changed nothing has its copy on the host already.
  EndStay(s, record_ && open_[s].end == End::kCopyOut ? End::kCopyOut : End::kDrop);
}

void Machine::BeginCopyIn(StorageId s, OpId next_need) {
  assert(on_host_[s] && !on_device_[s]);
  BeginStay(s, Begin::kCopyIn);
  settled_[s] = false;
  coming_.push_back({next_need, s});
}

Schedule Machine::TakeSchedule() {
  for (const StorageId s : workload_->storage_ids()) {
    if (on_device_[s]) EndStay(s, workload_->outlives[s] ? End::kStays : End::kFree);
  }
  std::ranges::sort(schedule_.stays, {}, [](const Stay& stay) { return std::tuple(stay.from, stay.storage, stay.to); });
  return std::move(schedule_);
}

}  // namespace ebbtide::sim
