// Which threads want to run, as the system tells it.
#include "phantom/nccl/busy.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace ebbtide::phantom {
namespace {

TEST(BusyThreads, AThreadThatComputesIsRunnableAtEveryLook) {
  std::atomic<bool> ends = false;
  std::atomic<pid_t> id = 0;
  std::thread computes([&] {
    id = gettid();
    while (!ends) {
    }
  });
  while (id == 0) std::this_thread::yield();
  BusyThreads busy;
  EXPECT_FALSE(busy.Look({getpid()}));  // the first
  EXPECT_TRUE(RunnableThreads(getpid()).contains(id));
  EXPECT_TRUE(busy.Look({getpid()}));
  ends = true;
  computes.join();
}

TEST(BusyThreads, AThreadThatWaitsIsNot) {
  std::mutex mutex;
  std::condition_variable changed;
  bool ends = false;
  std::atomic<pid_t> id = 0;
  std::thread waits([&] {
    std::unique_lock lock(mutex);
    id = gettid();
    changed.wait(lock, [&] { return ends; });
  });
  while (id == 0) std::this_thread::yield();
  while (StateOfThread(getpid(), id) != 'S') std::this_thread::yield();
  EXPECT_FALSE(RunnableThreads(getpid()).contains(id));
  EXPECT_FALSE(RunnableThreads(getpid()).contains(gettid()));  // who asks
  {
    std::lock_guard lock(mutex);
    ends = true;
  }
  changed.notify_all();
  waits.join();
}

TEST(BusyThreads, ChildrenAreKnown) {
  if (access("/proc/self/task/self/children", F_OK) != 0 &&
      access(("/proc/self/task/" + std::to_string(getpid()) + "/children").c_str(), F_OK) != 0) {
    GTEST_SKIP() << "this system does not tell";
  }
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_EQ(ChildrenOf(getpid()), std::vector<pid_t>{child});
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(ChildrenOf(getpid()).empty());
}

}  // namespace
}  // namespace ebbtide::phantom
