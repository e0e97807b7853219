// Which instructions can be captured together.
#include "run/engine/captured_runs.h"

#include <algorithm>

namespace ebbtide::run {
namespace {

bool IsOutside(const PreparedStep& step, const Instruction& instruction) {
  const auto outside = [&](StorageId s) { return step.graph().storage(s).outside; };
  return std::ranges::any_of(step.workload().needs[instruction.op], outside) ||
         std::ranges::any_of(instruction.births, outside, &Birth::storage);
}

bool IsCapturable(const PreparedStep& step, const Instruction& instruction, const IdVector<OpId, bool>& capturable) {
  return instruction.op.valid() && capturable[instruction.op] && instruction.protect.empty() &&
         !instruction.draw.valid() && !IsOutside(step, instruction);
}

// Whether copies are queued or awaited at the boundary before the step.
bool HasCopies(const PreparedStep& step, StepId k) {
  const sim::Layout& layout = step.program().layout;
  const auto copied = [&](StayId i) { return step.schedule().stays[i].end == sim::End::kCopyOut; };
  return !layout.leaving[k].empty() || !layout.entering[k].empty() || !layout.arrivals[k].empty() ||
         std::ranges::any_of(layout.ending[k], copied);
}

}  // namespace

bool OnlyViews(const PreparedStep& step, const Instruction& instruction) {
  return instruction.births.empty() && step.workload().changes[instruction.op].empty();
}

std::vector<CapturedRun> FindRuns(const PreparedStep& step, const IdVector<OpId, bool>& capturable) {
  const Program& program = step.program();
  const StepId end = step.schedule().steps.end_id();
  std::vector<CapturedRun> out;
  for (StepId k(0); k < end;) {
    StepId next = k;
    std::size_t kernels = 0;
    while (next < end && IsCapturable(step, program.instructions[next], capturable) &&
           (next == k || (!HasCopies(step, next) && next != program.first_update))) {
      kernels += OnlyViews(step, program.instructions[next]) ? 0 : 1;
      ++next;
    }
    if (kernels >= 2) {
      CapturedRun& run = out.emplace_back();
      run.begin = k;
      run.end = next;
    }
    k = std::max(next, k.Next());
  }
  return out;
}

}  // namespace ebbtide::run
