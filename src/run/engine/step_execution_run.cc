// A run of instructions that is captured once and launched again (captured_runs.h).
#include <algorithm>
#include <tuple>
#include <utility>

#include "run/engine/failures.h"
#include "run/engine/step_execution.h"

namespace ebbtide::run {

void StepExecution::SetCapturable(const IdVector<OpId, bool>& capturable) {
  runs_ = FindRuns(step_, capturable);
  run_at_.assign(step_.program().instructions.size(), -1);
  for (std::size_t i = 0; i < runs_.size(); ++i) run_at_[runs_[i].begin] = static_cast<std::int32_t>(i);
}

// Null: instructions are executed one by one from here on.
CapturedRun* StepExecution::RunFrom(StepId k, const StepCall& call) {
  if (runs_.empty() || run_at_[k] < 0) return nullptr;
  if (step_.region().shared() || shared_.has_turns() || call.made_up || !call.outside.empty() || !device_.captures())
    return nullptr;
  return &runs_[static_cast<std::size_t>(run_at_[k])];
}

RunStatus StepExecution::WalkRun(CapturedRun& run, const StepCall& call) {
  EBB_RUN(PassBoundary(run.begin, step_.program().instructions[run.begin]));
  if (run.known && !run.work && !run.refused) Capture(run, call);
  return run.work ? LaunchRun(run, call) : LearnRun(run, call);
}

// One by one, and what they touch is noted.
RunStatus StepExecution::LearnRun(CapturedRun& run, const StepCall& call) {
  run.accesses.clear();
  run.scratch.clear();
  bool in_place = true;
  const std::int64_t relocated = recorder_.report().relocated;
  for (const StepId k : Ids(run.begin, run.end)) {
    const Instruction& instruction = step_.program().instructions[k];
    if (k != run.begin) EBB_RUN(PassBoundary(k, instruction));
    EBB_RUN(RunStep(k, instruction, call));
    if (run.refused) continue;
    in_place = in_place && memory_.beyond() == 0;
    run.accesses.insert(run.accesses.end(), accesses_.begin(), accesses_.end());
    run.scratch.push_back({memory_.most(), {memory_.given().begin(), memory_.given().end()}});
  }
  const auto order = [](const Used& a) { return std::tuple(a.address, a.bytes, a.writes); };
  std::ranges::sort(run.accesses, {}, order);
  const auto repeated = std::ranges::unique(run.accesses, {}, order);
  run.accesses.erase(repeated.begin(), repeated.end());
  run.known = in_place && recorder_.report().relocated == relocated;
  return {};
}

// Nothing of it is done: where it fails, the run is executed as if it had not been tried.
void StepExecution::Capture(CapturedRun& run, const StepCall& call) {
  run.refused = true;
  if (!device_.BeginCapture()) return;
  OpRunner& runner = step_.runner();
  const IdVector<StepId, Instruction>& instructions = step_.program().instructions;
  const RunStatus ran = WithHostMemory([&]() -> RunStatus {
    for (const StepId k : Ids(run.begin, run.end)) {
      const Instruction& instruction = instructions[k];
      memory_.Begin(instruction, step_.requests()[instruction.op],
                    [] { return std::vector<std::pair<Bytes, Bytes>>(); });
      EBB_RUN(runner.Run(instruction.op, call.scalars, memory_, made_));
      for (std::size_t i = 0; i < instruction.births.size(); ++i) {
        const Birth& birth = instruction.births[i];
        if (i >= made_.size() || (made_[i].bytes > 0 && made_[i].at != device_.At(birth.address)))
          return Failed(Failure::Kind::kOther, "an op made something elsewhere than planned");
        runner.Bind(birth.storage, device_.At(birth.address));
      }
    }
    return {};
  });
  Result<std::shared_ptr<CapturedWork>> work = device_.EndCapture();
  for (const StepId k : Ids(run.begin, run.end)) {
    for (const Birth& birth : instructions[k].births) {
      const Bytes address = places_.AddressOf(birth.storage);
      runner.Bind(birth.storage, address < 0 ? nullptr : device_.At(address));
    }
  }
  if (!ran || !work) return;
  run.work = *std::move(work);
  run.refused = false;
}

RunStatus StepExecution::LaunchRun(CapturedRun& run, const StepCall& call) {
  const IdVector<StepId, Instruction>& instructions = step_.program().instructions;
  const bool in_update = instructions[run.begin].in_update;
  EBB_RUN(AwaitArrivals(run.begin));
  update_begun_ = update_begun_ || in_update;
  Nanos begin = device_.Mark();
  EBB_RUN(Access(in_update, [&] { return device_.BeginOp("ops that were captured", run.accesses); }));
  begin = Waited(begin, run.begin, run.end);
  const RunStatus launched = Access(in_update, [&] { return device_.Launch(*run.work); });
  device_.EndOp();
  const Nanos end = device_.Mark();
  if (!launched) return launched;
  recorder_.RanTogether(run.begin, run.end, begin, end);
  for (const StepId k : Ids(run.begin, run.end)) {
    const Instruction& instruction = instructions[k];
    if (k != run.begin) EBB_RUN(PassBoundary(k, instruction));
    const ScratchUse& scratch = run.scratch[k.index() - run.begin.index()];
    for (const auto& [address, bytes] : scratch.given) recorder_.Reach(address, bytes);
    Bytes beside = scratch.most;
    for (const Birth& birth : instruction.births) {
      if (birth.bytes > 0) recorder_.Reach(birth.address, step_.workload().bytes[birth.storage]);
      if (birth.kept) {
        places_.Begin(birth.storage, birth.address);
      } else {
        beside += step_.workload().bytes[birth.storage];
      }
    }
    recorder_.HoldBriefly(beside);
    if (!OnlyViews(step_, instruction)) continue;
    memory_.Begin(instruction, step_.requests()[instruction.op], [] { return std::vector<std::pair<Bytes, Bytes>>(); });
    EBB_RUN(step_.runner().Run(instruction.op, call.scalars, memory_, made_));
  }
  return {};
}

}  // namespace ebbtide::run
