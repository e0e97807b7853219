// Memory by its bytes alone, for baselines that add up curves: no addresses, and no safe order.
#pragma once

#include <algorithm>
#include <vector>

#include "share/baselines/baseline.h"

namespace ebbtide::share {

// Jobs within an iteration, and the bytes they hold. A group whose bytes do not fit waits.
class Waves : public GroupScheduler {
 public:
  Waves(const BaselineInput& input, Bytes capacity) : room_(capacity - StateOf(input)) {
    for (const Job& job : input.jobs) {
      Wave wave;
      wave.bytes = LiveBytesOf(job);
      for (const NodeGroup& group : job.cut.groups) wave.time.push_back(group.time);
      const auto highest = std::ranges::max_element(wave.bytes, {}, &GroupBytes::peak);
      wave.peak_group = static_cast<int>(highest - wave.bytes.begin());
      waves_.push_back(std::move(wave));
    }
  }

  std::optional<Nanos> TryStart(std::size_t job, int group, double) override {
    if (group == 0 && !MayBegin(job)) return std::nullopt;
    Bytes others = 0;
    for (std::size_t i = 0; i < waves_.size(); ++i) others += i == job ? 0 : waves_[i].held;
    Wave& wave = waves_[job];
    if (others + wave.bytes[group].peak > room_) return std::nullopt;
    if (group == 0) wave.within = true, ++wave.begun;
    wave.group = group;
    wave.runs = true;
    wave.held = wave.bytes[group].peak;
    return Nanos{0};
  }

  void Finished(std::size_t job, int group, double) override {
    Wave& wave = waves_[job];
    wave.held = wave.bytes[group].after;
    wave.runs = false;
    if (group + 1 < static_cast<int>(wave.bytes.size())) return;
    wave.within = false;
    wave.held = 0;
  }

  // Not even alone does the tallest fit.
  bool IsHopeless() const {
    return std::ranges::any_of(waves_, [&](const Wave& wave) { return wave.bytes[wave.peak_group].peak > room_; });
  }

 protected:
  struct Wave {
    std::vector<GroupBytes> bytes;
    std::vector<Nanos> time;
    int peak_group = 0;
    bool within = false, runs = false;
    int group = 0;  // that runs or ran last
    Bytes held = 0;
    std::int64_t begun = 0;  // iterations
  };
  virtual bool MayBegin(std::size_t job) const = 0;
  // Nobody has begun fewer iterations, and of those that have begun as few, none that waits comes before it.
  bool IsNext(std::size_t job) const {
    for (std::size_t i = 0; i < waves_.size(); ++i) {
      if (i == job || waves_[i].within) continue;
      if (waves_[i].begun < waves_[job].begun || (waves_[i].begun == waves_[job].begun && i < job)) return false;
    }
    return true;
  }

  const Bytes room_;
  std::vector<Wave> waves_;
};

inline BaselineResult RunWaves(const char* name, const BaselineInput& input, Waves& scheduler) {
  BaselineResult out{.name = name, .note = {}, .together = {}};
  Bytes tallest = 0;
  for (const Job& job : input.jobs) tallest = std::max(tallest, job.placement.live_peak);
  out.memory = StateOf(input) + tallest;
  if (scheduler.IsHopeless()) {
    out.note = fmt::format("needs {}", FormatBytes(out.memory));
    return out;
  }
  out.together = RunTogether(input.jobs, scheduler, input.options.together);
  out.fits = !out.together.stuck;
  if (out.together.stuck) out.note = "out of memory: each waits for what the other holds";
  return out;
}

}  // namespace ebbtide::share
