// Particles that search side by side, in rounds; between rounds each takes over a part of what others found.
#include "plan/decide/decide.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <utility>

#include "base/parallel.h"

namespace ebbtide::plan {
namespace {

constexpr int kRounds = 8;
constexpr int kMoreFits = 2;        // rounds of as many changes again, where nothing is within the budget
constexpr double kFitHeat = 0.3;    // while the peak is lowered: enough to leave a dead end, not to forget
constexpr double kFitShare = 0.7;   // of a particle's changes, at most, until it is within the budget
constexpr double kBeginHeat = 0.6;  // of the first round behind that

// Of two particles, stage by stage: what `other` does in a run of stages, and what `own` does in the rest.
std::vector<RunAgain> Crossed(const std::vector<RunAgain>& own, const std::vector<RunAgain>& other, std::size_t stages,
                              Random& random) {
  const std::size_t length = 1 + random.Below(stages);
  const std::size_t from = random.Below(stages), to = from + length;
  const auto is_inside = [&](const RunAgain& run) {
    const std::size_t t = run.stage.index();
    return (t >= from && t < to) || t + stages < to;
  };
  std::vector<RunAgain> out;
  for (const RunAgain& run : own) {
    if (!is_inside(run)) out.push_back(run);
  }
  for (const RunAgain& run : other) {
    if (is_inside(run)) out.push_back(run);
  }
  std::ranges::stable_sort(out, {}, &RunAgain::stage);
  return out;
}

class Swarming {
 public:
  Swarming(const Problem& problem, const DecideOptions& options)
      : problem_(problem), options_(options), units_(FindUnits(problem)) {
    if (problem.limits.may_swap && !options.start.empty()) absences_ = AbsencesOf(problem, options.start.front());
    const std::int64_t each = std::max<std::int64_t>(options.changes / options.particles, 1);
    for (int i = 0; i < options.particles; ++i) {
      Random random(options.seed * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(i));
      particles_.push_back(std::make_unique<Improver>(problem, units_, absences_, random.Next()));
      left_.push_back(each);
    }
  }

  DecideResult Run() {
    ForEachIndex(particles_.size(), options_.threads, [&](std::size_t i) { Begin(i); });
    Tell(0.3);
    for (int round = 0; round < kRounds && !Stopped(); ++round) {
      if (round > 0 && options_.swarm && particles_.size() > 1) Pull(round);
      ForEachIndex(particles_.size(), options_.threads, [&](std::size_t i) { Improve(i, round); });
      Tell(0.3 + 0.7 * (round + 1) / kRounds);
    }
    for (int i = 0; i < kMoreFits && !Fits() && !Stopped(); ++i)
      ForEachIndex(particles_.size(), options_.threads, [&](std::size_t k) { FitMore(k); });
    return Result();
  }

 private:
  bool Stopped() const { return (options_.stop && options_.stop()) || IsLate(problem_); }
  std::function<bool()> Stop() const {
    return [this] { return Stopped(); };
  }
  void Tell(double share) const {
    if (options_.progress) options_.progress(share);
  }

  // The first particles begin with what is known, the others with nothing run again.
  void Begin(std::size_t i) {
    Improver& particle = *particles_[i];
    const std::size_t known = std::min(options_.start.size(), (particles_.size() + 1) / 2);
    particle.Start(i < known ? RunsOf(problem_, units_, options_.start[i]) : std::vector<RunAgain>{});
    const std::int64_t before = particle.evaluations();
    if (particle.best().excess > 0)
      particle.Fit(static_cast<std::int64_t>(static_cast<double>(left_[i]) * kFitShare), kFitHeat, Stop());
    left_[i] -= particle.evaluations() - before;
  }

  bool Fits() const {
    return std::ranges::any_of(particles_, [](const auto& particle) { return particle->best().excess == 0; });
  }
  // Whether there is a plan at all is worth as much again, and more.
  void FitMore(std::size_t i) {
    Improver& particle = *particles_[i];
    const std::int64_t most = options_.changes / options_.particles;
    if (particle.Fit(most, kFitHeat, Stop())) particle.Run(most, kBeginHeat, 0, Stop());
  }

  void Improve(std::size_t i, int round) {
    Improver& particle = *particles_[i];
    const std::int64_t before = particle.evaluations(), share = left_[i] / (kRounds - round);
    const double step = kBeginHeat / kRounds;
    if (particle.best().excess > 0) {
      particle.Fit(share, kFitHeat, Stop());
    } else if (options_.local) {
      particle.Run(share, kBeginHeat - step * round, kBeginHeat - step * (round + 1), Stop());
    } else {
      particle.Run(share, 0, 0, Stop());
    }
    left_[i] -= particle.evaluations() - before;
  }

  // Each goes on from its best, with a part of the best of all, or of a neighbour.
  void Pull(int round) {
    std::vector<Decided> best;
    for (const auto& particle : particles_) best.push_back(particle->best());
    const std::size_t first = BestOf(best);
    for (std::size_t i = 0; i < particles_.size(); ++i) {
      Random random((options_.seed << 20) ^ (static_cast<std::uint64_t>(round) << 8) ^ i);
      random.Next();
      const std::size_t near = (i + 1 + random.Below(particles_.size() - 1)) % particles_.size();
      const std::size_t from = i != first && random.Uniform() < 0.7 ? first : near;
      // A particle that is far behind begins anew from the best.
      const bool is_behind = best[i].excess > 0 && best[first].excess == 0;
      if (i == first && random.Uniform() < 0.5) continue;
      particles_[i]->Start(is_behind ? best[first].runs
                                     : Crossed(best[i].runs, best[from].runs, problem_.workload->ops() + 1, random));
    }
  }

  static std::size_t BestOf(const std::vector<Decided>& decided) {
    std::size_t first = 0;
    for (std::size_t i = 1; i < decided.size(); ++i) {
      if (std::pair(decided[i].excess, decided[i].again) < std::pair(decided[first].excess, decided[first].again))
        first = i;
    }
    return first;
  }

  DecideResult Result() const {
    DecideResult out;
    std::vector<Decided> best;
    for (const auto& particle : particles_) best.push_back(particle->best()), out.changes += particle->evaluations();
    const Decided& first = best[BestOf(best)];
    Retention retention(problem_, units_, absences_);
    retention.Load(first.runs);
    (retention.peak() <= problem_.limits.budget ? out.schedule.emplace() : out.lowest) = retention.ToSchedule();
    return out;
  }

  const Problem& problem_;
  const DecideOptions& options_;
  const Units units_;
  std::vector<Absence> absences_;
  std::vector<std::unique_ptr<Improver>> particles_;
  std::vector<std::int64_t> left_;  // changes that each may still make
};

}  // namespace

std::vector<Absence> AbsencesOf(const Problem& problem, const sim::Schedule& schedule) {
  // The stage of each boundary, and of those that do not begin one the stage behind.
  IdVector<sim::StepId, OpId> stage, stage_behind;
  OpId next(0);
  bool begins = true;
  for (const OpId op : schedule.steps) {
    stage.push_back(next);
    stage_behind.push_back(begins ? next : next.Next());
    begins = op == next;
    if (begins) ++next;
  }
  stage.push_back(next);
  stage_behind.push_back(next);
  std::vector<Absence> out;
  IdVector<StorageId, const sim::Stay*> copied(problem.workload->storages(), nullptr);  // to the host, and not back yet
  for (const sim::Stay& stay : schedule.stays) {
    if (problem.workload->IsState(stay.storage)) continue;
    const sim::Stay* last = nullptr;
    if (stay.begin == sim::Begin::kCopyIn) last = std::exchange(copied[stay.storage], nullptr);
    if (stay.end == sim::End::kCopyOut) copied[stay.storage] = &stay;
    if (stay.begin != sim::Begin::kCopyIn) continue;
    Absence absence;
    absence.storage = stay.storage;
    absence.from = stage[stay.from];
    absence.has_copy = last == nullptr;
    if (last) absence.leave = stage_behind[last->leave], absence.to = stage_behind[last->to], absence.turn = last->turn;
    if (last && (absence.to > absence.from || absence.to == OpId(0))) return {};  // within one stage
    out.push_back(absence);
  }
  return out;
}

std::int64_t DefaultChanges(const sim::Workload& workload) {
  const auto ops = static_cast<std::int64_t>(std::max<std::size_t>(workload.ops(), 1));
  return std::clamp<std::int64_t>(3'000'000'000 / ops, 24'000, 600'000);
}

std::vector<RunAgain> RunsOf(const Problem& problem, const Units& units, const sim::Schedule& schedule) {
  std::vector<RunAgain> out;
  OpId next(0);
  for (const OpId op : schedule.steps) {
    if (op == next) {
      ++next;
    } else if (units.by_maker[op].valid()) {
      out.push_back({next, units.by_maker[op]});
    }
  }
  assert(next.index() == problem.workload->ops());
  return out;
}

DecideResult Decide(const Problem& problem, const DecideOptions& options) { return Swarming(problem, options).Run(); }

sim::Schedule DecideLowest(const Problem& problem, const DecideOptions& options) {
  Problem asked = problem;
  asked.limits.budget = Floor(problem);
  const Units units = FindUnits(asked);
  const std::size_t particles = 1 + options.start.size();
  std::vector<std::vector<RunAgain>> runs(particles);
  std::vector<Bytes> peaks(particles);
  ForEachIndex(particles, options.threads, [&](std::size_t i) {
    Random random(options.seed * 0x9e3779b97f4a7c15U + i);
    Improver particle(asked, units, {}, random.Next());
    particle.Start(i == 0 ? std::vector<RunAgain>{} : RunsOf(asked, units, options.start[i - 1]));
    particle.Fit(options.changes / static_cast<std::int64_t>(particles), kFitHeat,
                 [&] { return (options.stop && options.stop()) || IsLate(problem); });
    runs[i] = particle.lowest();
    Retention retention(asked, units);
    retention.Load(runs[i]);
    peaks[i] = retention.peak();
  });
  Retention retention(asked, units);
  retention.Load(runs[static_cast<std::size_t>(std::ranges::min_element(peaks) - peaks.begin())]);
  return retention.ToSchedule();
}

}  // namespace ebbtide::plan
