// Turns, and what is held of a lane.
#include "run/engine/shared_part.h"

#include <algorithm>

#include "run/engine/failures.h"

namespace ebbtide::run {

RunStatus SharedPart::Begin(Turns& turns) {
  turns_ = &turns;
  const tl::expected<Turns::Turn, Failure> turn = turns.Begin();
  if (!turn) return tl::unexpected<Failure>(turn.error());
  granted_ = turn->height;
  group_ = 0;
  const Status placed = step_.PlaceAtTurn(*turn);
  if (!placed) turns.End();
  return FromStatus(placed);
}

void SharedPart::End() {
  if (turns_) turns_->End();
}

RunStatus SharedPart::EnterGroup(StepId step, bool must) {
  const std::vector<StepId>& groups = step_.region().groups;
  if (!turns_ || group_ + 1 >= groups.size() || groups[group_ + 1] != step) return {};
  const Nanos begin = Now();
  const tl::expected<Bytes, Failure> height = turns_->Next(group_ + 1, must);
  recorder_.report().wait_for_turn += Now() - begin;
  if (!height) return tl::unexpected<Failure>(height.error());
  ++group_;
  granted_ = *height;
  return {};
}

RunStatus SharedPart::Hold(Bytes address, Bytes bytes) {
  const StepRegion& region = step_.region();
  if (!region.InLane(address) || bytes == 0) return {};
  const Bytes taken = region.from_top ? region.lane + region.lane_bytes - address : address + bytes - region.lane;
  if (turns_ && taken > granted_) {
    return Failed(Failure::Kind::kOther,
                  fmt::format("group {} takes {} bytes of its lane, and was given {}", group_, taken, granted_));
  }
  return FromStatus(step_.device().Hold(address, bytes));
}

RunStatus SharedPart::HoldForOp(const Instruction& instruction) {
  if (!step_.region().shared()) return {};
  for (const Birth& birth : instruction.births) {
    const Bytes bytes = step_.workload().bytes[birth.storage];
    EBB_RUN(Hold(birth.address, bytes));
    if (bytes > 0) op_holds_.emplace_back(birth.address, birth.kept);
  }
  EBB_RUN(Hold(instruction.scratch_address, instruction.scratch_bytes));
  if (instruction.scratch_bytes > 0) op_holds_.emplace_back(instruction.scratch_address, false);
  return {};
}

void SharedPart::LetGoOfOp(bool all) {
  for (const auto& [address, kept] : op_holds_) {
    if (step_.region().InLane(address) && (all || !kept)) step_.device().LetGo(address);
  }
  op_holds_.clear();
}

std::vector<std::pair<Bytes, Bytes>> SharedPart::FreeRanges(StepId step) const {
  const IdVector<StorageId, Bytes>& size = step_.workload().bytes;
  std::vector<std::pair<Bytes, Bytes>> taken;
  for (const sim::Stay& stay : step_.schedule().stays) {
    if (stay.from <= step && step < stay.to) taken.emplace_back(stay.address, size[stay.storage]);
  }
  const Instruction& instruction = step_.program().instructions[step];
  for (const Birth& birth : instruction.births) taken.emplace_back(birth.address, size[birth.storage]);
  taken.emplace_back(instruction.scratch_address, instruction.scratch_bytes);
  std::ranges::sort(taken);
  std::vector<std::pair<Bytes, Bytes>> out;
  const auto within = [&](Bytes at, Bytes end) {
    const auto gap = [&](Bytes until) {
      const Bytes aligned = RoundUp(at, step_.alignment());
      if (aligned < until) out.emplace_back(aligned, until - aligned);
    };
    for (const auto& [address, bytes] : taken) {
      if (bytes <= 0 || address + bytes <= at || address >= end) continue;
      gap(address);
      at = std::max(at, address + bytes);
    }
    gap(end);
  };
  const StepRegion& region = step_.region();
  if (!region.shared()) {
    within(0, step_.device().capacity());
    return out;
  }
  within(region.state, region.state + region.state_bytes);
  const Bytes top = region.lane + region.lane_bytes;
  region.from_top ? within(top - granted_, top) : within(region.lane, region.lane + granted_);
  return out;
}

}  // namespace ebbtide::run
