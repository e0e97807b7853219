// Binds storages to addresses and takes them off the device again.
#include "run/engine/storage_places.h"

#include "run/engine/failures.h"

namespace ebbtide::run {

StoragePlaces::StoragePlaces(const PreparedStep& step, StepRecorder& recorder) : step_(step), recorder_(recorder) {
  at_.assign(step.workload().storages(), -1);
  outside_.assign(step.workload().storages(), nullptr);
}

void StoragePlaces::Start() {
  at_ = step_.program().home;
  has_left_.assign(at_.size(), false);
}

void StoragePlaces::EnterOutside(const StepCall& call) {
  for (const auto& [s, at] : call.outside) {
    outside_[s] = at;
    step_.runner().Bind(s, at);
  }
}

void StoragePlaces::LeaveOutside(const StepCall& call) {
  for (const auto& [s, at] : call.outside) {
    outside_[s] = nullptr;
    step_.runner().Bind(s, nullptr);
  }
}

void StoragePlaces::Begin(StorageId s, Bytes address) {
  at_[s] = address;
  recorder_.Hold(step_.workload().bytes[s]);
  recorder_.Reach(address, step_.workload().bytes[s]);
  step_.runner().Bind(s, step_.device().At(address));
}

void StoragePlaces::End(StorageId s) {
  if (at_[s] < 0) return;
  const Bytes bytes = step_.workload().bytes[s];
  if (step_.region().InLane(at_[s]) && bytes > 0) step_.device().LetGo(at_[s]);
  at_[s] = -1;
  has_left_[s] = true;
  recorder_.LetGo(bytes);
  step_.runner().Bind(s, nullptr);
}

void StoragePlaces::EndAll() {
  for (const StorageId s : at_.ids()) {
    const Bytes home = step_.program().home[s];
    if (at_[s] < 0) continue;
    if (home < 0 || step_.region().InLane(home)) {
      End(s);
    } else if (step_.region().InLane(at_[s])) {  // state, which has gone home
      if (step_.workload().bytes[s] > 0) step_.device().LetGo(at_[s]);
      at_[s] = home;
    }
  }
}

// By way of the host: places overlap.
RunStatus StoragePlaces::BringHome() {
  const Program& program = step_.program();
  Device& device = step_.device();
  for (const StorageId s : program.moved) {
    if (at_[s] < 0 || at_[s] == program.home[s]) continue;
    EBB_RUN(Access(true, [&] { return device.Read(at_[s], step_.host().CopyOf(s), step_.graph().storage(s).bytes); }));
  }
  for (const StorageId s : program.moved) {
    if (at_[s] == program.home[s]) continue;
    EBB_RUN(Access(
        true, [&] { return device.Write(step_.host().CopyOf(s), program.home[s], step_.graph().storage(s).bytes); }));
  }
  for (const StorageId s : program.moved) step_.runner().Bind(s, device.At(program.home[s]));
  return {};
}

}  // namespace ebbtide::run
