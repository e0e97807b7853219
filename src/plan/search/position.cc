// Positions from random numbers, from preferences, and back to preferences.
#include "plan/search/position.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ebbtide::plan {

std::uint64_t Random::Next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double Random::Normal() { return std::sqrt(-2 * std::log(1 - Uniform())) * std::cos(2 * std::numbers::pi * Uniform()); }

Position RandomPosition(const Candidates& candidates, Random& random) {
  Position out;
  // Swapping more or less of the whole is what particles differ in first.
  const double swap = 4 * random.Uniform() - 2;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    out.lean.push_back({static_cast<float>(random.Normal()), static_cast<float>(swap + random.Normal()),
                        static_cast<float>(random.Normal() - 2)});
  }
  out.distance_power = static_cast<float>(2 * random.Uniform());
  out.staleness_power = std::max(0.0f, static_cast<float>(3 * random.Uniform() - 1.5));
  out.batch = static_cast<float>(2 + 6 * random.Uniform());
  return out;
}

Position Encode(const Preferences& preferences, const Candidates& candidates) {
  Position out;
  for (const CandidateId i : candidates.groups.ids()) {
    const StorageId s = candidates.groups[i].front();
    const float keep = preferences.weight[s];
    const Choice choice = preferences.choice[s];
    out.lean.push_back(
        {keep, choice == Choice::kSwap ? keep + 1 : keep - 1, choice == Choice::kRecompute ? keep + 1 : keep - 2});
  }
  out.distance_power = static_cast<float>(preferences.distance_power);
  out.staleness_power = static_cast<float>(preferences.staleness_power);
  out.batch = static_cast<float>(preferences.batch);
  return out;
}

Preferences Decode(const Position& position, const Candidates& candidates, const sim::Workload& workload) {
  Preferences out = Neutral(workload);
  out.distance_power = std::clamp(position.distance_power, 0.0f, 3.0f);
  out.staleness_power = std::clamp(position.staleness_power, 0.0f, 3.0f);
  out.batch = std::clamp(position.batch, 1.0f, 10.0f);
  for (const CandidateId i : candidates.groups.ids()) {
    const auto& [keep, swap, recompute] = position.lean[i];
    const Choice choice = swap >= keep && swap >= recompute ? Choice::kSwap
                          : keep >= recompute               ? Choice::kKeep
                                                            : Choice::kRecompute;
    for (const StorageId s : candidates.groups[i]) {
      out.choice[s] = choice;
      out.weight[s] = keep;
    }
  }
  return out;
}

Position Mutate(const Position& position, Random& random) {
  Position out = position;
  if (random.Uniform() < 0.1) {
    out.distance_power += static_cast<float>(0.3 * random.Normal());
    out.staleness_power += static_cast<float>(0.3 * random.Normal());
    out.batch += static_cast<float>(random.Normal());
    if (random.Uniform() < 0.7) return out;
  }
  const std::size_t n = out.lean.size();
  if (n == 0) return out;
  const std::size_t count =
      1 + static_cast<std::size_t>(std::pow(random.Uniform(), 3) * std::min<double>(16, static_cast<double>(n)));
  const std::size_t width =
      std::max<std::size_t>(1, static_cast<std::size_t>(std::pow(random.Uniform(), 2) * static_cast<double>(n)));
  const std::size_t middle = random.Below(n);
  const bool together = random.Uniform() < 0.5;  // all the same way, or each its own
  std::array<float, 3> shift{};
  for (std::size_t i = 0; i < count; ++i) {
    if (i == 0 || !together) {
      for (float& part : shift) part = random.Uniform() < 0.5 ? static_cast<float>(2 * random.Normal()) : 0.0f;
    }
    auto& lean = out.lean[CandidateId((middle + random.Below(width)) % n)];
    for (std::size_t c = 0; c < 3; ++c) lean[c] = std::clamp(lean[c] + shift[c], -6.0f, 6.0f);
  }
  return out;
}

}  // namespace ebbtide::plan
