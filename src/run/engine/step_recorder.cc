// From marks of the device to a report: times are known only when the device has been drained.
#include "run/engine/step_recorder.h"

#include <tuple>

namespace ebbtide::run {

void StepRecorder::Start() {
  const std::size_t steps = step_.schedule().steps.size(), stays = step_.schedule().stays.size();
  report_ = {};
  report_.step_time.assign(steps, 0);
  live_ = 0;
  outcome_ = {};
  outcome_.timeline.reserve(steps + 2 * stays);
  outcome_.boundary.reserve(steps + 1);
  outcome_.released.reserve(steps + 1);
  queued_.clear();
  queued_.reserve(2 * stays);
  together_.clear();
  together_.reserve(steps);
  spans_.clear();
  spans_.reserve(3 * steps + 4 * stays);
  std::ignore = device_.TakeCopies();
  begin_ = Now();
  device_.StartClock();
}

void StepRecorder::Ran(StepId step, const Instruction& instruction, Nanos begin, Nanos end) {
  outcome_.timeline.push_back({sim::Stream::kCompute, begin, end, instruction.op, StorageId(), instruction.again});
  if (!by_thread_) spans_.push_back({begin, end, &report_.step_time[step]});
  if (instruction.again) Add(begin, end, &StepReport::recompute);
}

void StepRecorder::RanTogether(StepId begin, StepId end, Nanos from, Nanos until) {
  together_.push_back({begin, end, outcome_.timeline.size()});
  for (const StepId k : Ids(begin, end)) {
    const Instruction& instruction = step_.program().instructions[k];
    outcome_.timeline.push_back({sim::Stream::kCompute, from, until, instruction.op, StorageId(), instruction.again});
  }
  ++report_.graphs;
  report_.graph_ops += static_cast<std::int64_t>(end.index() - begin.index());
}

StepReport StepRecorder::Finish() {
  ResolveMarks();
  PartTogether();
  if (step_.region().shared()) AddGroups();
  outcome_.time = report_.time;
  outcome_.peak = report_.live_peak;
  outcome_.host_peak = step_.host().copied_bytes();
  outcome_.recompute = report_.recompute;
  outcome_.wait_for_memory = report_.wait_for_memory;
  outcome_.wait_for_data = report_.wait_for_data;
  outcome_.drain = report_.drain;
  outcome_.copied_out = report_.copied_out;
  outcome_.copied_in = report_.copied_in;
  AddCopies();
  return std::move(report_);
}

void StepRecorder::ResolveMarks() {
  for (const Span& span : spans_) *span.sum += device_.When(span.end) - device_.When(span.begin);
  for (sim::Span& interval : outcome_.timeline) {
    interval.begin = device_.When(interval.begin) - begin_;
    interval.end = device_.When(interval.end) - begin_;
  }
  for (IdVector<StepId, Nanos>* const moments : {&outcome_.boundary, &outcome_.released}) {
    for (Nanos& moment : *moments) moment = device_.When(moment) - begin_;
  }
}

// After marks are times.
void StepRecorder::PartTogether() {
  for (const Together& run : together_) {
    const Nanos from = outcome_.timeline[run.first].begin, all = outcome_.timeline[run.first].end - from;
    double planned = 0, before = 0;
    const auto weight = [&](StepId k) {
      return static_cast<double>(std::max<Nanos>(step_.workload().time[step_.program().instructions[k].op], 1));
    };
    for (const StepId k : Ids(run.begin, run.end)) planned += weight(k);
    for (const StepId k : Ids(run.begin, run.end)) {
      sim::Span& span = outcome_.timeline[run.first + (k.index() - run.begin.index())];
      span.begin = from + static_cast<Nanos>(static_cast<double>(all) * before / planned);
      before += weight(k);
      span.end = from + static_cast<Nanos>(static_cast<double>(all) * before / planned);
      report_.step_time[k] = span.end - span.begin;
      if (step_.program().instructions[k].again) report_.recompute += span.end - span.begin;
      if (k != run.begin) outcome_.boundary[k] = outcome_.released[k] = span.begin;
    }
  }
}

// Before copies are added: the timeline has the steps alone.
void StepRecorder::AddGroups() {
  const std::vector<StepId>& groups = step_.region().groups;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const StepId end = g + 1 < groups.size() ? groups[g + 1] : step_.schedule().steps.end_id();
    report_.groups.emplace_back(begin_ + outcome_.timeline[groups[g].index()].begin,
                                begin_ + outcome_.timeline[end.index() - 1].end);
  }
}

void StepRecorder::AddCopies() {
  const IdVector<StayId, sim::Stay>& stays = step_.schedule().stays;
  outcome_.left.assign(stays.size(), 0);
  std::ranges::sort(queued_, {}, &QueuedCopy::ticket);
  for (const CopySpan& span : device_.TakeCopies()) {
    const auto queued = std::ranges::lower_bound(queued_, span.ticket, {}, &QueuedCopy::ticket);
    if (queued == queued_.end() || queued->ticket != span.ticket) continue;
    outcome_.timeline.push_back({queued->out ? sim::Stream::kToHost : sim::Stream::kToDevice, span.begin - begin_,
                                 span.end - begin_, OpId(), stays[queued->stay].storage, false});
    if (queued->out) outcome_.left[queued->stay] = span.end - begin_;
  }
}

}  // namespace ebbtide::run
