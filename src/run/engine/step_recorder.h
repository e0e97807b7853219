// Writes down what a step does while it runs, and makes the report of it when it has ended.
//
// During the update nothing here asks the host for memory: Start has reserved what a step can need.
#pragma once

#include <algorithm>
#include <vector>

#include "run/device/clock.h"
#include "run/engine/prepared_step.h"
#include "run/engine/step_report.h"
#include "sim/simulate.h"

namespace ebbtide::run {

class StepRecorder {
 public:
  // `step` must outlive the recorder.
  explicit StepRecorder(const PreparedStep& step) : step_(step), device_(step.device()) {}

  // Forgets the step before, and starts the device's clock.
  void Start();
  Nanos Elapsed() const { return Now() - begin_; }
  StepReport& report() { return report_; }

  // ---- Moments, as the device marks them
  void ReachBoundary() { outcome_.boundary.push_back(device_.Mark()); }
  void Release() { outcome_.released.push_back(device_.Mark()); }
  // The time from one mark to another is added to `what`.
  void Add(Nanos begin, Nanos end, Nanos StepReport::*what) { spans_.push_back({begin, end, &(report_.*what)}); }
  void Ran(StepId step, const Instruction& instruction, Nanos begin, Nanos end);
  // The instructions [begin, end) ran as one: each is told to have had its part of the time, by the times of the plan.
  void RanTogether(StepId begin, StepId end, Nanos from, Nanos until);
  // In place of the device's time between the marks of Ran; see CountThreadTime.
  void RanOnThread(StepId step, Nanos time) { report_.step_time[step] = time; }
  void Queued(Ticket ticket, StayId stay, bool out) { queued_.push_back({ticket, stay, out}); }

  // ---- Memory
  void Hold(Bytes bytes) { report_.live_peak = std::max(report_.live_peak, live_ += bytes); }
  void LetGo(Bytes bytes) { live_ -= bytes; }
  // So many bytes beside what is held, for a moment.
  void HoldBriefly(Bytes bytes) { report_.live_peak = std::max(report_.live_peak, live_ + bytes); }
  void Reach(Bytes address, Bytes bytes) {
    report_.peak = std::max(report_.peak, step_.region().HeightOf(address, bytes));
  }

  // Whether times of ops are those of the calling thread, given to RanOnThread.
  void CountThreadTime(bool by_thread) { by_thread_ = by_thread; }
  bool counts_thread_time() const { return by_thread_; }

  // The step has succeeded, and the device is drained. `time` of the report is set.
  StepReport Finish();
  // The last step that was finished, as the simulator tells of steps, with its timeline.
  const sim::Outcome& outcome() const { return outcome_; }

 private:
  void ResolveMarks();
  void PartTogether();
  void AddGroups();
  void AddCopies();

  struct Span {
    Nanos begin, end;  // the device's marks
    Nanos* sum;        // of the report: what they are added to
  };
  struct QueuedCopy {
    Ticket ticket;
    StayId stay;
    bool out;
  };
  struct Together {
    StepId begin, end;
    std::size_t first;  // of the timeline
  };
  const PreparedStep& step_;
  Device& device_;
  StepReport report_;
  sim::Outcome outcome_;
  std::vector<Span> spans_;
  std::vector<QueuedCopy> queued_;
  std::vector<Together> together_;
  Nanos begin_ = 0;
  Bytes live_ = 0;
  bool by_thread_ = false;
};

}  // namespace ebbtide::run
