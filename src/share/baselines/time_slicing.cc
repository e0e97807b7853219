// Whole iterations in turn, as suspending and resuming at iteration boundaries does (Gandiva, PipeSwitch). A process
// each, with a context. Between iterations a process holds its state alone; its cache is emptied, which costs nothing
// here. A state that does not fit beside the iteration that runs goes to the host, least recently used first, and comes
// back before the job's turn; both ways at once, at the link's full speed.
#include <algorithm>

#include "share/baselines/baseline.h"

namespace ebbtide::share {
namespace {

class Turns : public GroupScheduler {
 public:
  Turns(const BaselineInput& input, Bytes capacity) : input_(input), capacity_(capacity) {
    for (std::size_t i = 0; i < input.jobs.size(); ++i) resident_.push_back(true), used_.push_back(0);
    // They start in turn: those that do not all fit are brought in when it is theirs.
    for (std::size_t i = input.jobs.size(); i-- > 0 && Resident() > capacity_;) resident_[i] = false;
  }

  std::optional<Nanos> TryStart(std::size_t job, int group, double) override {
    if (group > 0) return Nanos{0};
    if (running_ || job != turn_) return std::nullopt;
    running_ = true;
    const Placement& placement = input_.jobs[job].placement;
    Bytes out = 0, in = 0;
    if (!resident_[job]) in = placement.state, resident_[job] = true;
    used_[job] = ++clock_;
    while (Resident() + placement.live_peak > capacity_) {
      std::size_t oldest = job;
      for (std::size_t i = 0; i < resident_.size(); ++i) {
        if (i != job && resident_[i] && (oldest == job || used_[i] < used_[oldest])) oldest = i;
      }
      if (oldest == job) break;
      resident_[oldest] = false;
      out += input_.jobs[oldest].placement.state;
    }
    moved += in + out;
    const Link& link = input_.options.link;
    return std::max(in > 0 ? link.TimeIn(in) : 0, out > 0 ? link.TimeOut(out) : 0);
  }

  void Finished(std::size_t job, int group, double) override {
    if (group + 1 < static_cast<int>(input_.jobs[job].cut.groups.size())) return;
    running_ = false;
    turn_ = (job + 1) % input_.jobs.size();
  }

  Bytes moved = 0;

 private:
  Bytes Resident() const {
    Bytes sum = 0;
    for (std::size_t i = 0; i < resident_.size(); ++i) sum += resident_[i] ? input_.jobs[i].placement.state : 0;
    return sum;
  }

  const BaselineInput& input_;
  const Bytes capacity_;
  std::vector<bool> resident_;
  std::vector<std::int64_t> used_;
  std::int64_t clock_ = 0;
  std::size_t turn_ = 0;
  bool running_ = false;
};

}  // namespace

BaselineResult RunTimeSlicing(const BaselineInput& input) {
  BaselineResult out{.name = "time-slicing", .note = {}, .together = {}};
  const Bytes capacity = CapacityBesideContexts(input);
  Bytes largest = 0, tallest = 0;
  for (const Job& job : input.jobs) {
    largest = std::max(largest, job.placement.state + job.placement.live_peak);
    tallest = std::max(tallest, job.placement.live_peak);
  }
  out.memory = StateOf(input) + tallest;
  if (largest > capacity) {
    out.note = fmt::format("one needs {} beside {} contexts", FormatBytes(largest), input.jobs.size());
    return out;
  }
  out.fits = true;
  Turns scheduler(input, capacity);
  out.together = RunTogether(input.jobs, scheduler, input.options.together);
  if (scheduler.moved > 0) out.note = "moves state at every turn";
  return out;
}

}  // namespace ebbtide::share
