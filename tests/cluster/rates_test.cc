// How fast jobs are that share a GPU: by hand, by laws, and beside the simulator of src/share.
#include "cluster/rates.h"

#include <gtest/gtest.h>

#include <random>

namespace ebbtide::cluster {
namespace {

TEST(Rates, OneAloneIsAsFastAsAlone) {
  EXPECT_EQ(Rates(std::vector<GpuUser>{{.kernels = 1, .gpu_share = 1}}), std::vector<double>{1.0});
  EXPECT_TRUE(Rates({}).empty());
}

TEST(Rates, JobsThatFillTheGpuHaveEqualParts) {
  const std::vector<GpuUser> users(4, {.kernels = 1, .gpu_share = 1});
  for (const double rate : Rates(users)) EXPECT_NEAR(rate, 0.25, 1e-6);
}

TEST(Rates, SmallKernelsDoNotDisturbEachOther) {
  const std::vector<GpuUser> users(4, {.kernels = 1, .gpu_share = 0.25});
  for (const double rate : Rates(users)) EXPECT_NEAR(rate, 1, 1e-6);
}

// Two jobs that are on the GPU half of their time, which they fill then: s = 1 + p, where p = s/(1 + s), so s is the
// golden ratio and the rate 2/(1 + s).
TEST(Rates, HalfOfTheTimeEach) {
  const std::vector<GpuUser> users(2, {.kernels = 0.5, .gpu_share = 1});
  for (const double rate : Rates(users)) EXPECT_NEAR(rate, 2 / (1 + (1 + std::sqrt(5.0)) / 2), 1e-5);
}

TEST(Rates, Laws) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> unit(0.01, 1);
  for (int round = 0; round < 500; ++round) {
    std::vector<GpuUser> users(1 + random() % 6);
    for (GpuUser& user : users) user = {.kernels = unit(random), .gpu_share = unit(random)};
    const std::vector<double> rates = Rates(users);
    double used = 0;
    for (std::size_t i = 0; i < users.size(); ++i) {
      EXPECT_GT(rates[i], 0);
      EXPECT_LE(rates[i], 1 + 1e-9);
      used += rates[i] * users[i].kernels * users[i].gpu_share;
    }
    EXPECT_LE(used, 1 + 1e-9);
    // Beside one more nobody is faster.
    users.push_back({.kernels = unit(random), .gpu_share = unit(random)});
    const std::vector<double> beside = Rates(users);
    for (std::size_t i = 0; i < rates.size(); ++i) EXPECT_LE(beside[i], rates[i] + 0.02);
  }
}

}  // namespace
}  // namespace ebbtide::cluster
