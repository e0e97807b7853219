#include "share/simulate.h"

#include <algorithm>
#include <limits>

#include "share/track.h"

namespace ebbtide::share {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

enum class State : std::uint8_t {
  kAsks,    // for its next group
  kPauses,  // off the GPU, until `until`
  kCopies,  // at a boundary, until copies have ended: `until`
  kLaunches,
  kRuns,
};

struct Runner {
  Track track;
  State state = State::kAsks;
  std::size_t step = 0;  // that runs or is to run next
  double until = 0;
  double left = 0;  // of the body, alone
  double asked_at = 0;
  double waited = 0;
  std::int64_t iterations = 0;
  std::vector<double> ended;              // by iteration
  std::vector<double> out_done, in_done;  // by stay: when its copy of this iteration ends
  GroupRun run;
  bool in_group = false;
};

class Simulation {
 public:
  Simulation(const std::vector<Job>& jobs, Gate& gate, const TogetherOptions& options)
      : jobs_(jobs), gate_(gate), options_(options) {
    for (const Job& job : jobs) {
      Runner runner;
      runner.track = MakeTrack(job, options.link);
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
        runner.left = runner.track.steps[runner.step].body;
        return true;
      case State::kRuns:
        if (runner.left > 0) return false;
        return EndStep(i);
    }
    return false;
  }

  bool Ask(std::size_t i) {
    Runner& runner = runners_[i];
    const int group = static_cast<int>(runner.track.group_of[runner.step]);
    const auto pause = gate_.TryStart(i, group, now_);
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
    const Track& track = runner.track;
    const Nanos fetch = gate_.BeforeStep(i, runner.step, now_);
    for (const std::uint32_t stay : track.boundaries[runner.step].entering) {
      link_in_ = std::max(link_in_, now_) + static_cast<double>(track.copy_in[stay]);
      runner.in_done[stay] = link_in_;
    }
    double ready = now_ + static_cast<double>(fetch);
    for (const std::uint32_t stay : track.steps[runner.step].arrivals) ready = std::max(ready, runner.in_done[stay]);
    runner.state = State::kLaunches;
    runner.until = ready + track.steps[runner.step].launch;
    Remember(i, jobs_[i].placement.live[runner.step], jobs_[i].placement.heights[runner.step]);
    return true;
  }

  bool EndStep(std::size_t i) {
    Runner& runner = runners_[i];
    const Track::Boundary& boundary = runner.track.boundaries[runner.step + 1];
    for (const std::uint32_t stay : boundary.leaving) {
      link_out_ = std::max(link_out_, now_) + static_cast<double>(runner.track.copy_out[stay]);
      runner.out_done[stay] = link_out_;
    }
    runner.until = now_;
    for (const std::uint32_t stay : boundary.ending) runner.until = std::max(runner.until, runner.out_done[stay]);
    runner.state = State::kCopies;
    return true;
  }

  bool AfterCopies(std::size_t i) {
    Runner& runner = runners_[i];
    Remember(i, jobs_[i].placement.crossing[runner.step], jobs_[i].placement.after[runner.step]);
    ++runner.step;
    const int group = runner.run.group;
    if (runner.step < runner.track.group_end[group]) return Enter(i);
    runner.in_group = false;
    runner.run.end = now_;
    if (Counts()) {
      ++out_.group_runs;
      out_.overlapped += runner.run.overlapped ? 1 : 0;
    }
    if (options_.keep_timeline) out_.runs.push_back(runner.run);
    gate_.Finished(i, group, now_);
    if (runner.step == runner.track.steps.size()) {
      runner.step = 0;
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
      if (runner.state == State::kRuns) shares += runner.track.steps[runner.step].share;
    }
    const double slowdown = std::max(1.0, shares);
    double next = kNever;
    for (const Runner& runner : runners_) {
      if (runner.state == State::kRuns) {
        next = std::min(next, now_ + runner.left * slowdown);
      } else if (runner.state != State::kAsks) {
        next = std::min(next, runner.until);
      }
    }
    if (next == kNever) return false;
    const double passed = next - now_;
    for (Runner& runner : runners_) {
      if (runner.state != State::kRuns) continue;
      runner.left -= passed / slowdown;
      if (runner.left < kRounding) runner.left = 0;
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

  static constexpr double kRounding = 1e-3;  // of a nanosecond: less than that is left of nothing

  const std::vector<Job>& jobs_;
  Gate& gate_;
  const TogetherOptions options_;
  std::vector<Runner> runners_;
  double now_ = 0, link_in_ = 0, link_out_ = 0;
  double counted_from_ = -1, busy_ = 0;
  Together out_;
};

}  // namespace

Together RunTogether(const std::vector<Job>& jobs, Gate& gate, const TogetherOptions& options) {
  return Simulation(jobs, gate, options).Run();
}

}  // namespace ebbtide::share
