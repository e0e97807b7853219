// Saves what a step may change before its update, and puts it back.
#include "run/engine/undo_log.h"

#include <tuple>

#include "run/engine/failures.h"

namespace ebbtide::run {

UndoLog::UndoLog(const PreparedStep& step, const StoragePlaces& places)
    : step_(step), places_(places), random_bytes_(step.runner().RandomBytes()) {
  random_.resize(random_bytes_ * (1 + step.program().draws));
  now_.resize(random_bytes_);
}

RunStatus UndoLog::Save() {
  if (!random_.empty()) step_.runner().SaveRandom(random_.data());
  for (const StorageId s : step_.program().undo) {
    EBB_RUN(FromStatus(
        step_.device().Save(step_.program().home[s], step_.host().BeforeStep(s), step_.graph().storage(s).bytes)));
    ++saved_;
  }
  return {};
}

void UndoLog::Undo() {
  const Program& program = step_.program();
  const auto write = [&](const std::byte* from, StorageId s) {
    std::ignore =
        Access(true, [&] { return step_.device().Write(from, program.home[s], step_.graph().storage(s).bytes); });
  };
  for (const StorageId s : program.moved) {
    // What has left is on the host, as it was: only the update changes it, and buffers, which follow.
    if (places_.has_left(s) && step_.graph().storage(s).bytes > 0) write(step_.host().CopyOf(s), s);
    step_.runner().Bind(s, step_.device().At(program.home[s]));
  }
  for (std::size_t i = 0; i < saved_; ++i) write(step_.host().BeforeStep(program.undo[i]), program.undo[i]);
  if (!random_.empty()) step_.runner().LoadRandom(random_.data());
}

void UndoLog::BeforeRun(const Instruction& instruction) {
  if (!instruction.draw.valid()) return;
  if (instruction.again) {
    step_.runner().SaveRandom(now_.data());
    step_.runner().LoadRandom(StateOf(instruction.draw));
  } else {
    step_.runner().SaveRandom(StateOf(instruction.draw));
  }
}

void UndoLog::AfterRun(const Instruction& instruction) {
  if (instruction.draw.valid() && instruction.again && !now_.empty()) step_.runner().LoadRandom(now_.data());
}

}  // namespace ebbtide::run
