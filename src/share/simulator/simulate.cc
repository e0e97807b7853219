// Goes from event to event: who may start, what copies end when, how fast each op runs beside the others.
#include "share/simulator/simulate.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "share/simulator/job_layout.h"

namespace ebbtide::share {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

enum class State : std::uint8_t {
  kRests,   // has had all of its iterations
  kAsks,    // for its next group
  kPauses,  // off the GPU, until `until`
  kCopies,  // at a boundary, until copies have ended: `until`
  kLaunches,
  kRuns,
};

struct Runner {
  JobLayout layout;
  State state = State::kAsks;
  StepId step{0};  // that runs or is to run next
  double until = 0;
  double left = 0;  // of the body, alone
  double asked_at = 0;
  double waited = 0;
  std::int64_t iterations = 0;
  std::vector<double> ended;                   // by iteration
  IdVector<StayId, double> out_done, in_done;  // when its copy of this iteration ends
  GroupRun run;
  bool in_group = false;
};

class Simulation {
 public:
  Simulation(const std::vector<Job>& jobs, GroupScheduler& scheduler, const TogetherOptions& options)
      : jobs_(jobs), scheduler_(scheduler), options_(options) {
    const auto priority = [](const Job& job) { return job.training->priority; };
    const auto weight = [](const Job& job) { return job.training->weight; };
    if (std::ranges::adjacent_find(jobs, std::ranges::not_equal_to{}, priority) != jobs.end()) {
      options_.iterations += std::exchange(options_.warm_up, 0);
      const std::int64_t least = weight(*std::ranges::min_element(jobs, {}, weight));
      for (const Job& job : jobs) last_.push_back((options_.iterations * weight(job) + least - 1) / least);
    }
    for (const Job& job : jobs) {
      Runner runner;
      runner.layout = LayOut(job, options.link);
      runner.out_done.assign(job.placement.schedule.stays.size(), 0);
      runner.in_done.assign(job.placement.schedule.stays.size(), 0);
      runners_.push_back(std::move(runner));
    }
  }

  Together Run() {
    const std::int64_t target = options_.warm_up + options_.iterations;
    std::int64_t events = 0;
    while (Least() < target) {
      Proceed();
      if (Least() >= target) break;
      if (options_.stop && events % kEventsBetweenStops == 0 && options_.stop()) {
        out_.stopped = true;
        return std::move(out_);
      }
      if (!Advance() || ++events > options_.most_events) {
        out_.stuck = true;
        return std::move(out_);
      }
    }
    Summarise();
    return std::move(out_);
  }

 private:
  std::int64_t Least() const {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const Runner& runner : runners_) least = std::min(least, runner.iterations);
    return least;
  }
  bool Counts() const { return Least() >= options_.warm_up; }

  // All that takes no time. Whatever ends may let others go on, so it is gone round until nobody moves.
  void Proceed() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t i = 0; i < runners_.size(); ++i) moved |= Step(i);
    }
  }

  // Whether the job got on.
  bool Step(std::size_t i) {
    Runner& runner = runners_[i];
    switch (runner.state) {
      case State::kRests: return false;
      case State::kAsks: return Ask(i);
      case State::kPauses:
        if (runner.until > now_) return false;
        return Enter(i);
      case State::kCopies:
        if (runner.until > now_) return false;
        return AfterCopies(i);
      case State::kLaunches:
        if (runner.until > now_) return false;
        runner.state = State::kRuns;
        runner.left = runner.layout.steps[runner.step].body;
        return true;
      case State::kRuns:
        if (runner.left > 0) return false;
        return EndStep(i);
    }
    return false;
  }

  bool Ask(std::size_t i) {
    Runner& runner = runners_[i];
    if (!last_.empty() && runner.iterations >= last_[i]) {
      runner.state = State::kRests;
      scheduler_.Rest(i);
      return true;
    }
    const int group = static_cast<int>(runner.layout.group_of[runner.step]);
    const auto pause = scheduler_.TryStart(i, group, now_);
    if (!pause) return false;
    if (Counts()) runner.waited += now_ - runner.asked_at;
    runner.run = {.job = i, .iteration = runner.iterations, .group = group, .begin = now_};
    runner.in_group = true;
    for (std::size_t j = 0; j < runners_.size(); ++j) {
      if (j == i || !runners_[j].in_group) continue;
      runner.run.overlapped = runners_[j].run.overlapped = true;
    }
    runner.state = State::kPauses;
    runner.until = now_ + static_cast<double>(*pause);
    return true;
  }

  // The step's copies to the device are queued; it begins when those it needs are there.
  bool Enter(std::size_t i) {
    Runner& runner = runners_[i];
    const JobLayout& layout = runner.layout;
    const Nanos fetch = scheduler_.BeforeStep(i, runner.step, now_);
    for (const StayId stay : layout.boundaries.entering[runner.step]) {
      link_in_ = std::max(link_in_, now_) + static_cast<double>(layout.copy_in[stay]);
      runner.in_done[stay] = link_in_;
    }
    double ready = now_ + static_cast<double>(fetch);
    for (const StayId stay : layout.boundaries.arrivals[runner.step]) ready = std::max(ready, runner.in_done[stay]);
    runner.state = State::kLaunches;
    runner.until = ready + layout.steps[runner.step].launch;
    Remember(i, jobs_[i].placement.live[runner.step], jobs_[i].placement.heights[runner.step]);
    return true;
  }

  bool EndStep(std::size_t i) {
    Runner& runner = runners_[i];
    const sim::Layout& boundaries = runner.layout.boundaries;
    for (const StayId stay : boundaries.leaving[runner.step.Next()]) {
      link_out_ = std::max(link_out_, now_) + static_cast<double>(runner.layout.copy_out[stay]);
      runner.out_done[stay] = link_out_;
    }
    runner.until = now_;
    for (const StayId stay : boundaries.ending[runner.step.Next()])
      runner.until = std::max(runner.until, runner.out_done[stay]);
    runner.state = State::kCopies;
    return true;
  }

  bool AfterCopies(std::size_t i) {
    Runner& runner = runners_[i];
    Remember(i, jobs_[i].placement.crossing[runner.step], jobs_[i].placement.after[runner.step]);
    ++runner.step;
    const int group = runner.run.group;
    if (runner.step < runner.layout.group_end[group]) return Enter(i);
    runner.in_group = false;
    runner.run.end = now_;
    if (Counts()) {
      ++out_.group_runs;
      out_.overlapped += runner.run.overlapped ? 1 : 0;
    }
    if (options_.keep_timeline) out_.runs.push_back(runner.run);
    scheduler_.Finished(i, group, now_);
    if (runner.step == runner.layout.steps.end_id()) {
      runner.step = StepId(0);
      ++runner.iterations;
      runner.ended.push_back(now_);
      if (Least() == options_.warm_up && counted_from_ < 0) counted_from_ = now_;
    }
    runner.state = State::kAsks;
    runner.asked_at = now_;
    return true;
  }

  // To the next end of anything. False: nothing is under way.
  bool Advance() {
    double shares = 0;
    for (const Runner& runner : runners_) {
      if (runner.state == State::kRuns) shares += runner.layout.steps[runner.step].share;
    }
    const double slowdown = std::max(1.0, shares);
    double next = kNever;
    for (const Runner& runner : runners_) {
      if (runner.state == State::kRuns) {
        next = std::min(next, now_ + runner.left * slowdown);
      } else if (runner.state != State::kAsks && runner.state != State::kRests) {
        next = std::min(next, runner.until);
      }
    }
    if (next == kNever) return false;
    const double passed = next - now_;
    for (Runner& runner : runners_) {
      if (runner.state != State::kRuns) continue;
      // Who is the next to end does end, also where the clock is too large to show what is left.
      const bool ends = now_ + runner.left * slowdown <= next;
      runner.left -= passed / slowdown;
      if (ends || runner.left < kRounding) runner.left = 0;
    }
    if (counted_from_ >= 0) busy_ += passed * std::min(1.0, shares);
    now_ = next;
    return true;
  }

  void Remember(std::size_t i, Bytes live, Bytes height) {
    if (options_.keep_timeline) out_.memory.push_back({now_, i, live, height});
  }

  void Summarise() {
    const double length = std::max(1.0, now_ - counted_from_);
    out_.round = static_cast<Nanos>(length / options_.iterations);
    out_.busy = busy_ / length;
    for (std::size_t i = 0; i < runners_.size(); ++i) {
      const Runner& runner = runners_[i];
      // From the first iteration that ends within the count to the last.
      const auto first = std::ranges::lower_bound(runner.ended, counted_from_);
      const auto count = static_cast<double>(runner.ended.end() - first) - 1;
      const double span = runner.ended.back() - *first;
      const double rate = count > 0 && span > 0 ? count / span * 1e9 : 1e9 / static_cast<double>(out_.round);
      out_.jobs.push_back({.iterations_per_second = rate, .waited = runner.waited / length});
      out_.throughput += rate * static_cast<double>(jobs_[i].alone) / 1e9;
    }
    out_.begin = counted_from_, out_.end = now_;
  }

  static constexpr std::int64_t kEventsBetweenStops = 512;
  static constexpr double kRounding = 1e-3;  // of a nanosecond: less than that is left of nothing

  const std::vector<Job>& jobs_;
  GroupScheduler& scheduler_;
  TogetherOptions options_;
  std::vector<std::int64_t> last_;  // by job: the iterations that it takes; empty: it goes on until all have theirs
  std::vector<Runner> runners_;
  double now_ = 0, link_in_ = 0, link_out_ = 0;
  double counted_from_ = -1, busy_ = 0;
  Together out_;
};

}  // namespace

Together RunTogether(const std::vector<Job>& jobs, GroupScheduler& scheduler, const TogetherOptions& options) {
  return Simulation(jobs, scheduler, options).Run();
}

}  // namespace ebbtide::share
