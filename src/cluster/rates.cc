// Solves for the speeds by repetition: how often each has a kernel on the GPU depends on how much the others slow it.
#include "cluster/rates.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace ebbtide::cluster {
namespace {

// Shares are told apart in so many steps.
constexpr int kSteps = 64;
constexpr int kMostRounds = 60;
constexpr double kEnough = 1e-6;

// The mean of max(1, own + others), where each of the others has a kernel on the GPU with its probability. `likely`
// becomes how likely the others keep each share of the GPU busy, in steps of 1/kSteps.
double SlowDown(std::span<const GpuUser> users, const std::vector<double>& present, std::size_t self,
                std::vector<double>& likely) {
  likely.assign(1, 1.0);
  for (std::size_t other = 0; other < users.size(); ++other) {
    if (other == self) continue;
    const auto step = static_cast<std::size_t>(std::lround(users[other].gpu_share * kSteps));
    if (step == 0) continue;
    likely.resize(likely.size() + step, 0.0);
    for (std::size_t at = likely.size(); at-- > 0;) {
      const double with = at >= step ? likely[at - step] : 0.0;
      likely[at] = likely[at] * (1 - present[other]) + with * present[other];
    }
  }
  double mean = 0;
  for (std::size_t at = 0; at < likely.size(); ++at) {
    mean += likely[at] * std::max(1.0, users[self].gpu_share + static_cast<double>(at) / kSteps);
  }
  return mean;
}

}  // namespace

std::vector<double> Rates(std::span<const GpuUser> users) {
  std::vector<double> rates(users.size(), 1.0);
  if (users.size() < 2) return rates;
  assert(users.size() <= kMostOnGpu);
  std::vector<double> present, likely;
  for (const GpuUser& user : users) present.push_back(user.kernels);
  for (int round = 0; round < kMostRounds; ++round) {
    double change = 0;
    for (std::size_t i = 0; i < users.size(); ++i) {
      const double kernels = users[i].kernels * SlowDown(users, present, i, likely);
      const double time = 1 - users[i].kernels + kernels;
      const double rate = 1 / time;
      change = std::max(change, std::abs(rate - rates[i]));
      rates[i] = rate;
      present[i] = kernels / time;
    }
    if (change < kEnough) break;
  }
  // The mean may promise more than the GPU has; no more than all of it is given away.
  const double busy = BusyShare(users, rates);
  double asked = 0;
  for (std::size_t i = 0; i < users.size(); ++i) asked += rates[i] * users[i].kernels * users[i].gpu_share;
  if (asked > busy) {
    for (double& rate : rates) rate *= busy / asked;
  }
  return rates;
}

double BusyShare(std::span<const GpuUser> users, std::span<const double> rates) {
  double busy = 0;
  for (std::size_t i = 0; i < users.size(); ++i) busy += rates[i] * users[i].kernels * users[i].gpu_share;
  return std::min(busy, 1.0);
}

}  // namespace ebbtide::cluster
