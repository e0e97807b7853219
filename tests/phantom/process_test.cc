// Processes: several on one device, forks, and what is written when one ends.
#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nvml.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/support/phantom/driver.h"
#include "tests/support/phantom/fresh_process.h"

namespace ebbtide::phantom {
namespace {

constexpr std::size_t kMiB = 1 << 20;

std::string SharedName(const char* test) { return "test-" + std::to_string(getpid()) + "-" + test; }

// A process that holds device memory until it is told to end, or is killed.
class Holder {
 public:
  Holder(const Variables& variables, std::size_t bytes) {
    int ready[2], stop[2];
    if (pipe(ready) != 0 || pipe(stop) != 0) std::abort();
    child_ = fork();
    if (child_ == 0) {
      close(stop[1]);
      Ended ended = RunToTheEnd(variables, [&] {
        StartDriver();
        Allocate(bytes);
        char byte = 1;
        pid_t self = getpid();
        ASSERT_EQ(write(ready[1], &self, sizeof(self)), static_cast<ssize_t>(sizeof(self)));
        EXPECT_EQ(read(stop[0], &byte, 1), 0);
      });
      _exit(ended.status == 0 ? 0 : 1);
    }
    close(ready[1]);
    close(stop[0]);
    EXPECT_EQ(read(ready[0], &inner_, sizeof(inner_)), static_cast<ssize_t>(sizeof(inner_)));
    close(ready[0]);
    stop_ = stop[1];
  }
  pid_t pid() const { return inner_; }  // of the process with the device
  void Kill() {
    kill(inner_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  void End() {
    close(stop_);
    int status = 0;
    waitpid(child_, &status, 0);
    EXPECT_EQ(status, 0);
  }

 private:
  pid_t child_ = 0, inner_ = 0;
  int stop_ = -1;
};

TEST(Processes, ShareTheCapacityOfOneDevice) {
  Variables shared = {{"SHARED", SharedName("share")}};
  Holder other(shared, 20 * kMiB);
  InFreshProcess(shared, [&] {
    StartDriver();
    // 64 MiB, less two contexts of 4 and the other's 20.
    EXPECT_EQ(MemoryInfo().free, 36 * kMiB);
    CUdeviceptr pointer = 0;
    EXPECT_EQ(cuMemAlloc(&pointer, 38 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemAlloc(&pointer, 36 * kMiB), CUDA_SUCCESS);

    nvmlDevice_t device = nullptr;
    nvmlProcessInfo_t processes[4] = {};
    unsigned count = 4;
    ASSERT_EQ(nvmlDeviceGetHandleByIndex(0, &device), NVML_SUCCESS);
    ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses(device, &count, processes), NVML_SUCCESS);
    ASSERT_EQ(count, 2u);
    EXPECT_EQ(processes[0].pid, static_cast<unsigned>(other.pid()));
    EXPECT_EQ(processes[0].usedGpuMemory, 24 * kMiB);
    EXPECT_EQ(processes[1].pid, static_cast<unsigned>(getpid()));
    EXPECT_EQ(processes[1].usedGpuMemory, 40 * kMiB);
  });
  other.End();
}

TEST(Processes, AKilledProcessGivesItsMemoryBack) {
  Variables shared = {{"SHARED", SharedName("killed")}};
  Holder other(shared, 20 * kMiB);
  InFreshProcess(shared, [&] {
    StartDriver();
    EXPECT_EQ(MemoryInfo().free, 36 * kMiB);
    kill(other.pid(), SIGKILL);
    while (MemoryInfo().free != 60 * kMiB) usleep(1000);  // until the kernel has let go of it
    Allocate(60 * kMiB);
  });
  other.Kill();
}

TEST(Processes, TheLastOneRemovesTheTable) {
  std::string name = SharedName("last");
  std::string path = "/dev/shm/ebbtide-phantom-" + name;
  Holder other({{"SHARED", name}}, kMiB);
  InFreshProcess({{"SHARED", name}}, [] { StartDriver(); });
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
  other.End();
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(Processes, WithoutANameTheyAreOnDevicesOfTheirOwn) {
  Holder other({}, 20 * kMiB);
  InFreshProcess([] {
    StartDriver();
    EXPECT_EQ(MemoryInfo().free, 60 * kMiB);
  });
  other.End();
}

TEST(Processes, AForkHasNoDevice) {
  TemporaryFolder folder;
  InFreshProcess({{"OUTPUT", folder.path()}}, [] {
    StartDriver();
    CUdeviceptr pointer = Allocate(kMiB);
    pid_t child = fork();
    if (child == 0) {
      bool refused = cuMemFree(pointer) == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_ERROR_NOT_INITIALIZED;
      _exit(refused ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);  // the parent's is as it was
  });
  EXPECT_NE(folder.OnlyJson(), "two files");
}

// ---- Statistics

nlohmann::json Statistics(const TemporaryFolder& folder) {
  auto json = nlohmann::json::parse(folder.OnlyJson(), nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << folder.OnlyJson();
  return json;
}

TEST(Statistics, TellWhatWasDone) {
  TemporaryFolder folder;
  InFreshProcess({{"OUTPUT", folder.path()}, {"FAIL", "cuMemAlloc@3"}}, [] {
    StartDriver();
    CUdeviceptr pointer = Allocate(10 * kMiB), none = 0;
    EXPECT_EQ(cuMemAlloc(&none, 60 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemAlloc(&none, 1), CUDA_ERROR_OUT_OF_MEMORY);  // injected: it would have fitted
    char host[100] = {};
    cuMemcpyHtoD(pointer, host, 100);
    cuMemcpyDtoH(host, pointer + 100, 50);
    cuMemsetD8(pointer, 0, 7);
    cuMemFree(pointer);
    CUtexObject texture = 0;
    EXPECT_EQ(cuTexObjectCreate(&texture, nullptr, nullptr, nullptr), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(cuTexObjectCreate(&texture, nullptr, nullptr, nullptr), CUDA_ERROR_NOT_SUPPORTED);
  });
  nlohmann::json all = Statistics(folder);
  EXPECT_EQ(all["format"], "ebbtide.phantom");
  EXPECT_EQ(all["gpu"], "test-gpu");
  EXPECT_EQ(all["capacity_bytes"], 64 * kMiB);
  EXPECT_EQ(all["context_bytes"], 4 * kMiB);
  EXPECT_EQ(all["peak_bytes"], 14 * kMiB);  // context and the one allocation
  EXPECT_EQ(all["bytes_at_end"], 4 * kMiB);
  EXPECT_EQ(all["allocations"]["count"], 1);
  EXPECT_EQ(all["out_of_memory"]["count"], 1);
  EXPECT_EQ(all["out_of_memory"]["bytes"], 60 * kMiB);
  EXPECT_EQ(all["faults_injected"], 1);
  EXPECT_EQ(all["copies_to_device"], (nlohmann::json{{"count", 1}, {"bytes", 100}}));
  EXPECT_EQ(all["host_reads"], (nlohmann::json{{"count", 1}, {"bytes", 50}}));
  EXPECT_EQ(all["empty_host_reads"], (nlohmann::json{{"count", 1}, {"bytes", 50}}));
  EXPECT_EQ(all["fills"], (nlohmann::json{{"count", 1}, {"bytes", 7}}));
  EXPECT_EQ(all["not_modelled"], (nlohmann::json{{"cuTexObjectCreate", 2}}));
  EXPECT_EQ(all["calls"]["cuMemAlloc"], 3);
  EXPECT_EQ(all["end"], "_exit");
}

TEST(Statistics, AreWrittenHoweverTheProcessEnds) {
  struct Case {
    const char* name;
    void (*end)();
  };
  const Case cases[] = {
    {"exit", [] { std::exit(3); }},
    {"_exit", [] { _exit(3); }},
    {"_exit", [] { std::_Exit(3); }},
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // those have handlers of their own
    {"signal", [] { std::abort(); }},
    {"signal", [] { raise(SIGTERM); }},
    {"signal", [] { *reinterpret_cast<volatile char*>(Allocate(1)) = 1; }},
#endif
  };
  for (const Case& how : cases) {
    TemporaryFolder folder;
    Ended ended = RunToTheEnd({{"OUTPUT", folder.path()}}, [&] {
      StartDriver();
      how.end();
    });
    EXPECT_NE(ended.status, 0);
    EXPECT_EQ(Statistics(folder)["end"], how.name);
  }
}

TEST(Statistics, AProcessWithoutADeviceWritesNothing) {
  TemporaryFolder folder;
  InFreshProcess({{"OUTPUT", folder.path()}}, [] {});
  EXPECT_EQ(folder.OnlyJson(), "");
}

}  // namespace
}  // namespace ebbtide::phantom
