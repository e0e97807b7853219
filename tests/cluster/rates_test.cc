// How fast jobs are that share a GPU: by hand, by laws, and beside the simulator of src/share.
#include "cluster/rates.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "model/zoo/zoo.h"
#include "share/baselines/baseline.h"

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

// What single ops give in the simulator of src/share, where a process each has its kernels on the GPU at any time, and
// what the mean of them gives here.
TEST(Rates, AreNearTheSimulatorOfSharing) {
  const DeviceProfile gpu = *FindProfile("a100-80gb");
  const auto training = [&](const char* name, std::int64_t batch, std::int64_t image) {
    model::ModelOptions options;
    options.batch_size = batch;
    options.image_size = image;
    options.device = model::Device::kCuda;
    return share::MakeTraining({.model = name, .batch = batch},
                               *model::zoo::Build(*model::zoo::FindMember(name), options), gpu);
  };
  const std::vector<std::shared_ptr<const share::Training>> models = {
      training("resnet18", 16, 64), training("mobilenet_v2", 32, 128), training("resnet50", 32, 224)};
  const std::vector<std::vector<std::size_t>> mixes = {{0, 0}, {0, 1}, {0, 2}, {1, 2}, {2, 2}, {0, 1, 2}};
  for (const std::vector<std::size_t>& mix : mixes) {
    std::vector<std::shared_ptr<const share::Training>> trainings;
    std::vector<GpuUser> users;
    for (const std::size_t i : mix) {
      trainings.push_back(models[i]);
      double alone = 0, kernels = 0, busy = 0;
      for (const OpId op : models[i]->workload.op_ids()) {
        const auto time = static_cast<double>(models[i]->workload.time[op]);
        const double on_gpu = time - static_cast<double>(models[i]->launch[op]);
        alone += time, kernels += on_gpu, busy += on_gpu * models[i]->share[op];
      }
      users.push_back({.kernels = kernels / alone, .gpu_share = busy / kernels});
    }
    const auto input = share::MakeBaselineInput(trainings, share::OptionsFor(gpu));
    const share::BaselineResult simulated = share::RunMps(input);
    ASSERT_TRUE(simulated.fits) << simulated.note;
    const std::vector<double> rates = Rates(users);
    for (std::size_t i = 0; i < mix.size(); ++i) {
      const double rate =
          simulated.together.jobs[i].iterations_per_second * static_cast<double>(input.jobs[i].alone) / 1e9;
      EXPECT_NEAR(rates[i], rate, 0.1) << "mix of " << mix.size() << ", job " << i;
    }
  }
}

}  // namespace
}  // namespace ebbtide::cluster
