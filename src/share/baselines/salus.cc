// Salus: 300 MiB are left free. A job whose state and peak fit gets a lane of its own; else it goes to the first lane
// whose peak, grown to its own if need be, fits beside its state. In a lane one iteration at a time, in turn.
#include <algorithm>

#include "share/baselines/baseline.h"

namespace ebbtide::share {
namespace {

constexpr Bytes kLeftFree = 300 * kMiB;

class Lanes : public GroupScheduler {
 public:
  explicit Lanes(const BaselineInput& input) : input_(input) {
    Bytes free = input.options.capacity - kLeftFree;
    for (std::size_t i = 0; i < input.jobs.size(); ++i) {
      const Bytes state = input.jobs[i].placement.state, peak = input.jobs[i].placement.live_peak;
      free -= state;
      auto lane = lanes_.end();
      Bytes growth = peak;
      if (free < peak) {
        lane = std::ranges::find_if(lanes_,
                                    [&](const Lane& each) { return free >= std::max(Bytes{0}, peak - each.peak); });
        if (lane == lanes_.end()) return;
        growth = std::max(Bytes{0}, peak - lane->peak);
      } else {
        lane = lanes_.insert(lanes_.end(), Lane{});
      }
      free -= growth;
      lane->peak += growth;
      lane->members.push_back(i);
      lane_of_.push_back(static_cast<std::size_t>(lane - lanes_.begin()));
    }
    fits = free >= 0;
  }

  std::optional<Nanos> TryStart(std::size_t job, int group, double) override {
    Lane& lane = lanes_[lane_of_[job]];
    if (group > 0) return Nanos{0};
    if (lane.runs || lane.members[lane.turn] != job) return std::nullopt;
    lane.runs = true;
    return Nanos{0};
  }
  void Finished(std::size_t job, int group, double) override {
    if (group + 1 < static_cast<int>(input_.jobs[job].cut.groups.size())) return;
    Lane& lane = lanes_[lane_of_[job]];
    lane.runs = false;
    lane.turn = (lane.turn + 1) % lane.members.size();
  }

  bool fits = false;
  std::size_t count() const { return lanes_.size(); }

 private:
  struct Lane {
    Bytes peak = 0;
    std::vector<std::size_t> members;
    std::size_t turn = 0;
    bool runs = false;
  };
  const BaselineInput& input_;
  std::vector<Lane> lanes_;
  std::vector<std::size_t> lane_of_;
};

}  // namespace

BaselineResult RunSalus(const BaselineInput& input) {
  BaselineResult out{.name = "salus", .note = {}, .together = {}};
  Bytes tallest = 0;
  for (const Job& job : input.jobs) tallest = std::max(tallest, job.placement.live_peak);
  out.memory = StateOf(input) + tallest + kLeftFree;
  Lanes scheduler(input);
  if (!scheduler.fits) {
    out.note = fmt::format("needs {}", FormatBytes(out.memory));
    return out;
  }
  out.fits = true;
  out.note = fmt::format("{} lane{}", scheduler.count(), scheduler.count() == 1 ? "" : "s");
  out.together = RunTogether(input.jobs, scheduler, input.options.together);
  return out;
}

}  // namespace ebbtide::share
