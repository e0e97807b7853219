// The swarm: particles that fly through the space of preferences, and small changes to the best of them.
#include "plan/search/search.h"

#include <algorithm>
#include <deque>

#include "plan/search/position.h"

namespace ebbtide::plan {
namespace {

// Of distance and staleness: what simple rules begin with.
constexpr std::pair<float, float> kPowers[] = {{0, 0}, {0.5f, 0}, {1, 0}, {2, 0}, {0, 1}, {0, 1.5f}, {1, 0.5f}, {1, 1}};

constexpr std::size_t kMostClose = 12;

struct Particle {
  Position at, velocity, best;
  Nanos time = kInfeasible;  // of `best`
};

class Search {
 public:
  Search(const Problem& problem, const SearchOptions& options)
      : problem_(problem), options_(options), candidates_(FindCandidates(problem, options.candidates)) {
    result_.candidates = candidates_.size();
    result_.considered = candidates_.considered;
    result_.best = Neutral(*problem.workload);
  }

  SearchResult RunSwarm() {
    if (options_.seeded) TryRules();
    if (!options_.start.empty()) TryStart();
    const auto swarm_until =
        static_cast<std::int64_t>(static_cast<double>(options_.evaluations) * (1 - options_.local_share));
    Begin();
    while (result_.evaluations < swarm_until && !Stopped()) Fly();
    while (result_.evaluations < options_.evaluations && !Stopped()) Improve();
    ListClose();
    return std::move(result_);
  }

  SearchResult RunRandom() {
    while (result_.evaluations < options_.evaluations && !Stopped()) {
      std::vector<Position> positions;
      for (int i = 0; i < options_.particles; ++i) positions.push_back(Fresh(static_cast<std::uint64_t>(i)));
      ++round_;
      EvaluateBatch(positions, best_time_);
    }
    return std::move(result_);
  }

 private:
  Random Stream(std::uint64_t what) const {
    return Random((options_.seed * 0x2545f4914f6cdd1du) ^ (round_ << 20) ^ (what << 1));
  }
  Position Fresh(std::uint64_t what) const {
    Random random = Stream(what);
    random.Next();
    return RandomPosition(candidates_, random);
  }

  bool Stopped() {
    if (IsLate(problem_) || (options_.stop && options_.stop())) result_.stopped_early = true;
    return result_.stopped_early;
  }

  // Whole-model settings of the rollout without any candidate's own.
  void TryRules() {
    std::vector<Position> rules;
    for (const float swap : {1.0f, -1.0f}) {
      if (swap > 0 && !problem_.limits.may_swap) continue;
      for (const auto& [distance, staleness] : kPowers) {
        for (const float batch : {4.0f, 7.0f}) {
          rules.push_back({.lean = IdVector<CandidateId, std::array<float, 3>>(candidates_.size(), {0.0f, swap, -2.0f}),
                           .distance_power = distance,
                           .staleness_power = staleness,
                           .batch = batch});
        }
      }
    }
    const std::vector<Nanos> times = EvaluateBatch(rules, kInfeasible);
    for (std::size_t i = 0; i < rules.size(); ++i) seeds_.emplace_back(times[i], rules[i]);
    std::ranges::stable_sort(seeds_, {}, [](const auto& seed) { return seed.first; });
  }

  void TryStart() {
    std::vector<Position> positions;
    for (const Preferences& preferences : options_.start) positions.push_back(Encode(preferences, candidates_));
    const std::vector<Nanos> times = EvaluateBatch(positions, kInfeasible);
    for (std::size_t i = 0; i < positions.size(); ++i) seeds_.emplace_back(times[i], positions[i]);
    std::ranges::stable_sort(seeds_, {}, [](const auto& seed) { return seed.first; });
  }

  void Begin() {
    ++round_;
    std::vector<Position> positions;
    for (int i = 0; i < options_.particles; ++i) {
      const auto n = static_cast<std::size_t>(i);
      Position at = Fresh(n);
      if (n < seeds_.size() && i < options_.particles / 2) {
        Random random = Stream(1000 + n);
        at = n < 2 ? seeds_[n].second : Mutate(seeds_[n].second, random);
      }
      positions.push_back(std::move(at));
    }
    const std::vector<Nanos> times = EvaluateBatch(positions, kInfeasible);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      Particle particle{.at = positions[i], .velocity = positions[i], .best = positions[i], .time = times[i]};
      for (auto& lean : particle.velocity.lean) lean = {0, 0, 0};
      particle.velocity.distance_power = particle.velocity.staleness_power = particle.velocity.batch = 0;
      particles_.push_back(std::move(particle));
    }
  }

  // One step of all particles: each is drawn to its own best, to its neighbours' and to the best of all.
  void Fly() {
    ++round_;
    std::vector<Position> positions;
    std::vector<Nanos> limits;  // a particle takes notice of what beats its own best
    for (std::size_t i = 0; i < particles_.size(); ++i) {
      Random random = Stream(i);
      Particle& particle = particles_[i];
      const Position& near = BestNear(i).best;
      const auto pull = [&](float at, float& velocity, float own, float neighbours, float all) {
        const auto u = [&] { return static_cast<float>(random.Uniform()); };
        velocity = 0.6f * velocity + 1.0f * u() * (own - at) + 0.7f * u() * (neighbours - at) + 0.7f * u() * (all - at);
        velocity = std::clamp(velocity, -2.0f, 2.0f);
        return std::clamp(at + velocity, -6.0f, 6.0f);
      };
      for (const CandidateId c : particle.at.lean.ids()) {
        for (std::size_t k = 0; k < 3; ++k) {
          particle.at.lean[c][k] = pull(particle.at.lean[c][k], particle.velocity.lean[c][k], particle.best.lean[c][k],
                                        near.lean[c][k], best_.lean[c][k]);
        }
      }
      particle.at.distance_power = pull(particle.at.distance_power, particle.velocity.distance_power,
                                        particle.best.distance_power, near.distance_power, best_.distance_power);
      particle.at.staleness_power = pull(particle.at.staleness_power, particle.velocity.staleness_power,
                                         particle.best.staleness_power, near.staleness_power, best_.staleness_power);
      particle.at.batch =
          pull(particle.at.batch, particle.velocity.batch, particle.best.batch, near.batch, best_.batch);
      particle.at = Mutate(particle.at, random);
      positions.push_back(particle.at);
      limits.push_back(particle.time);
    }
    const std::vector<Nanos> times = EvaluateBatch(positions, limits);
    for (std::size_t i = 0; i < particles_.size(); ++i) {
      if (times[i] >= particles_[i].time) continue;
      particles_[i].time = times[i];
      particles_[i].best = positions[i];
    }
  }

  // What the best took the place of, and what each particle found for itself.
  void ListClose() {
    std::vector<const Position*> close;
    for (std::size_t i = beaten_.size(); i-- > 0 && close.size() < kMostClose / 2;) close.push_back(&beaten_[i]);
    std::vector<const Particle*> particles;
    for (const Particle& particle : particles_) {
      if (particle.time != kInfeasible) particles.push_back(&particle);
    }
    std::ranges::stable_sort(particles, {}, &Particle::time);
    for (const Particle* particle : particles) {
      if (close.size() < kMostClose) close.push_back(&particle->best);
    }
    for (const Position* position : close) result_.close.push_back(Decode(*position, candidates_, *problem_.workload));
  }

  const Particle& BestNear(std::size_t i) const {
    const std::size_t n = particles_.size();
    const Particle* best = &particles_[i];
    for (const std::size_t j : {(i + 1) % n, (i + n - 1) % n}) {
      if (particles_[j].time < best->time) best = &particles_[j];
    }
    return *best;
  }

  // Changes a little of the best; what is no worse takes its place.
  void Improve() {
    ++round_;
    std::vector<Position> positions;
    for (int i = 0; i < options_.particles; ++i) {
      Random random = Stream(static_cast<std::uint64_t>(i));
      positions.push_back(Mutate(best_, random));
    }
    EvaluateBatch(positions, best_time_);
  }

  std::vector<Nanos> EvaluateBatch(const std::vector<Position>& positions, Nanos limit) {
    return EvaluateBatch(positions, std::vector<Nanos>(positions.size(), limit));
  }
  std::vector<Nanos> EvaluateBatch(const std::vector<Position>& positions, const std::vector<Nanos>& limits) {
    std::vector<Preferences> decoded;
    for (const Position& position : positions) decoded.push_back(Decode(position, candidates_, *problem_.workload));
    std::vector<Nanos> times = EvaluateAll(problem_, decoded, limits, options_.threads, options_.stop);
    result_.evaluations += static_cast<std::int64_t>(positions.size());
    for (std::size_t i = 0; i < positions.size(); ++i) {
      if (times[i] > best_time_ || times[i] == kInfeasible) continue;
      if (times[i] < best_time_ && best_time_ != kInfeasible) {
        beaten_.push_back(std::move(best_));
        if (beaten_.size() > kMostClose) beaten_.pop_front();
      }
      best_time_ = result_.time = times[i];
      best_ = positions[i];
      result_.best = decoded[i];
    }
    if (best_.lean.size() != candidates_.size()) best_ = positions.front();
    if (options_.progress) options_.progress(result_.evaluations, options_.evaluations, best_time_);
    return times;
  }

  const Problem& problem_;
  const SearchOptions& options_;
  const Candidates candidates_;
  SearchResult result_;
  std::uint64_t round_ = 1;
  std::vector<std::pair<Nanos, Position>> seeds_;
  std::vector<Particle> particles_;
  Position best_;
  std::deque<Position> beaten_;  // the last that were the best for a while
  Nanos best_time_ = kInfeasible;
};

}  // namespace

SearchResult Swarm(const Problem& problem, const SearchOptions& options) { return Search(problem, options).RunSwarm(); }

SearchResult RandomSearch(const Problem& problem, const SearchOptions& options) {
  return Search(problem, options).RunRandom();
}

}  // namespace ebbtide::plan
