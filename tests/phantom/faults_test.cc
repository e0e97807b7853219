// Faults on request, the log of calls, and a lost device.
#include "phantom/core/faults.h"

#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <fstream>
#include <iterator>

#include "phantom/core/config.h"
#include "tests/support/phantom/driver.h"
#include "tests/support/phantom/fresh_process.h"

namespace ebbtide::phantom {
namespace {

using testing::HasSubstr;

TEST(Faults, RulesAreRead) {
  auto rules = ParseFaults("cuMemMap@3,cudaMalloc%0.25,cudaMemcpy*@2+=lost_device,cuInit");
  ASSERT_TRUE(rules);
  ASSERT_EQ(rules->size(), 4u);
  EXPECT_EQ((*rules)[0].number, 3);
  EXPECT_EQ((*rules)[0].code, Code::kOutOfMemory);
  EXPECT_EQ((*rules)[1].probability, 0.25);
  EXPECT_TRUE((*rules)[2].Matches("cudaMemcpy2DAsync"));
  EXPECT_FALSE((*rules)[2].Matches("cudaMemset"));
  EXPECT_TRUE((*rules)[2].later_too);
  EXPECT_EQ((*rules)[2].code, Code::kLaunchFailed);
  EXPECT_TRUE((*rules)[3].Fires("cuInit", 7, 0));  // without a number: always
  EXPECT_EQ((*rules)[3].code, Code::kUnknown);
}

TEST(Faults, WhatIsNoRuleIsNamed) {
  for (const char* text :
       {"cuMemMap@0", "cuMemMap@x", "cuMemMap%2", "@3", "cu MemMap", "cuMemMap=soon", "a,,b", "%0.5"}) {
    auto rules = ParseFaults(text);
    ASSERT_FALSE(rules) << text;
    EXPECT_THAT(rules.error().message, HasSubstr("expected"));
  }
}

TEST(Faults, ProbabilityIsThatOfTheSeedAndTheNumber) {
  FaultRule rule = ParseFaults("cudaMalloc%0.1")->front();
  int fired = 0;
  for (int i = 1; i <= 100000; ++i) {
    fired += rule.Fires("cudaMalloc", i, 1);
    ASSERT_EQ(rule.Fires("cudaMalloc", i, 1), rule.Fires("cudaMalloc", i, 1));
  }
  EXPECT_NEAR(fired, 10000, 500);  // five standard deviations of 95
}

TEST(Faults, TheNthCallFails) {
  InFreshProcess({{"FAIL", "cuMemAlloc@2,cuMemCreate@1=unknown"}}, [] {
    StartDriver();
    CUdeviceptr pointer = 0;
    EXPECT_EQ(cuMemAlloc(&pointer, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAlloc(&pointer, 1), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemAlloc(&pointer, 1), CUDA_SUCCESS);
    CUmemAllocationProp properties = {};
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, 2 << 20, &properties, 0), CUDA_ERROR_UNKNOWN);
  });
}

TEST(Faults, ALostDeviceStaysLost) {
  InFreshProcess({{"FAIL", "cuMemcpyHtoD*@2=lost_device"}}, [] {
    StartDriver();
    CUdeviceptr pointer = Allocate(16);
    char data[16] = {};
    EXPECT_EQ(cuMemcpyHtoD(pointer, data, 16), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyHtoDAsync(pointer, data, 16, nullptr), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_EQ(cuMemAlloc(&pointer, 16), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
  });
}

TEST(Faults, EveryCallIsInTheLog) {
  TemporaryFolder folder;
  std::string path = folder.path() + "/log";
  InFreshProcess({{"LOG", path}, {"FAIL", "cuMemAlloc@2"}}, [] {
    StartDriver();
    CUdeviceptr pointer = 0;
    cuMemAlloc(&pointer, 1000);
    cuMemAlloc(&pointer, 2000);
    CUmodule module = nullptr;
    cuModuleLoad(&module, "no such file");
  });
  std::ifstream file(path);
  std::string log((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(log, HasSubstr(" cuInit(0)\n"));
  EXPECT_THAT(log, HasSubstr(" cuMemAlloc(1000)\n"));
  EXPECT_THAT(log, HasSubstr(" cuMemAlloc(2000) fails with 2\n"));
  EXPECT_THAT(log, HasSubstr(" cuModuleLoad(\"no such file\")\n"));
}

// ---- Variables that cannot be understood: one line, exit code 2.

std::string Refusal(const Variables& variables) {
  Ended ended = RunToTheEnd(variables, [] { cuInit(0); });
  EXPECT_TRUE(WIFEXITED(ended.status));
  EXPECT_EQ(WEXITSTATUS(ended.status), 2);
  EXPECT_EQ(std::count(ended.errors.begin(), ended.errors.end(), '\n'), 1) << ended.errors;
  return ended.errors;
}

TEST(Configuration, NonsenseIsOneLineAndExitCode2) {
  EXPECT_THAT(Refusal({{"FAIL", "cuMemMap@zero"}}), HasSubstr("EBBTIDE_PHANTOM_FAIL: \"cuMemMap@zero\": expected"));
  EXPECT_THAT(Refusal({{"BACKED", "lots"}}), HasSubstr("EBBTIDE_PHANTOM_BACKED: "));
  EXPECT_THAT(Refusal({{"JITTER_US", "-1"}}), HasSubstr("EBBTIDE_PHANTOM_JITTER_US: expected a number"));
  EXPECT_THAT(Refusal({{"CHECK", "everything"}}), HasSubstr("EBBTIDE_PHANTOM_CHECK: expected race"));
  EXPECT_THAT(Refusal({{"SHARED", "a/b"}}), HasSubstr("EBBTIDE_PHANTOM_SHARED: expected a short name"));
  EXPECT_THAT(Refusal({{"PROFILE", "no-such-gpu"}}), HasSubstr("EBBTIDE_PHANTOM_PROFILE: GPU \"no-such-gpu\""));
  EXPECT_THAT(Refusal({{"LOG", "/no/such/folder/log"}}), HasSubstr("EBBTIDE_PHANTOM_LOG: cannot open"));
}

}  // namespace
}  // namespace ebbtide::phantom
