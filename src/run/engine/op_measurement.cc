// Steps on made-up contents, and the median time of each op in them.
#include "run/engine/op_measurement.h"

#include <algorithm>

#include "run/engine/failures.h"
#include "run/engine/made_up.h"
#include "run/engine/whole_step.h"

namespace ebbtide::run {
namespace {

void FillState(PreparedStep& step) {
  const IdVector<StorageId, Bytes>& home = step.program().home;
  for (const StorageId s : home.ids()) {
    if (home[s] < 0) continue;
    FillMadeUp(step.graph(), s, step.device(), home[s]);
    step.runner().Bind(s, step.device().At(home[s]));
  }
}

// Of each op its times in the runs that count.
tl::expected<IdVector<OpId, std::vector<Nanos>>, Failure> TimesOf(StepExecution& execution,
                                                                  const OpMeasurementOptions& options) {
  PreparedStep& step = execution.step();
  StepCall call{.interrupted = options.interrupted, .made_up = true};
  for (const Scalar& scalar : step.graph().scalars) call.scalars.push_back(scalar.value);
  IdVector<OpId, std::vector<Nanos>> times(step.graph().ops.size());
  for (int i = 0; i <= options.runs; ++i) {
    FillState(step);
    const tl::expected<StepReport, Failure> report = RunWholeStep(execution, call);
    if (!report) return tl::unexpected<Failure>(report.error());
    if (i == 0) continue;  // the first makes tensors and pages
    for (const StepId k : report->step_time.ids()) {
      const Instruction& instruction = step.program().instructions[k];
      if (!instruction.again) times[instruction.op].push_back(report->step_time[k]);
    }
  }
  return times;
}

Nanos Median(std::vector<Nanos>& times) {
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

}  // namespace

tl::expected<IdVector<OpId, Nanos>, Failure> MeasureOps(StepExecution& execution, const OpMeasurementOptions& options) {
  // An op that is not known to be pure runs in trainings alone: what it does beside its result is the user's.
  if (!std::ranges::all_of(execution.step().graph().ops, &Op::deterministic))
    return Failed(Failure::Kind::kOther, "an op gives other bits each time");
  OpRunner& runner = execution.step().runner();
  std::vector<std::byte> random(runner.RandomBytes());
  runner.SaveRandom(random.data());
  execution.recorder().CountThreadTime(options.one_thread);
  tl::expected<IdVector<OpId, std::vector<Nanos>>, Failure> times = TimesOf(execution, options);
  execution.recorder().CountThreadTime(false);
  runner.LoadRandom(random.data());
  if (!times) return tl::unexpected<Failure>(std::move(times).error());
  IdVector<OpId, Nanos> out;
  for (std::vector<Nanos>& each : *times) out.push_back(Median(each));
  return out;
}

}  // namespace ebbtide::run
