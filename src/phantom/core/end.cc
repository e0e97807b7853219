// Statistics are written when the library is unloaded, from _exit, kill and their kin, which this library stands in
// front of, and from signals that the program leaves to kill it. Host code that touched device memory is told so.
#include "phantom/core/end.h"

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "phantom/core/call.h"
#include "phantom/core/declare.h"
#include "phantom/core/device.h"

namespace ebbtide::phantom {
namespace {

constexpr unsigned kSecondsToWrite = 20;
constexpr int kFatal[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTERM, SIGINT};

void End(std::string_view how, int signal = 0) {
  // A child by vfork shares this memory, and may call _exit before it becomes another program.
  if (!DeviceExists() || InForkedChild() || TheDevice().pid != getpid()) return;
  WriteStatistics(TheDevice(), how, signal);
  if (signal != 0) return;
  for (const auto& gpu : TheDevice().gpus) gpu->ledger.Leave();
}

__attribute__((destructor)) void OnUnload() { End("exit"); }

void Say(const char* text) { [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text, std::strlen(text)); }

void OnFatalSignal(int number, siginfo_t* info, void*) {
  if (number == SIGSEGV && DeviceExists() && TheDevice().space.TryIsOnDevice(reinterpret_cast<Address>(info->si_addr)))
    Say("phantom: host code touched device memory, as no GPU allows\n");
  // The code that was interrupted may hold a lock that writing wants: then the process ends without it.
  signal(SIGALRM, SIG_DFL);
  alarm(kSecondsToWrite);
  End("signal", number);
  signal(number, SIG_DFL);
  raise(number);
}

// A process that ends itself by a signal, as Python does after an interrupt: it has put the default back, so that no
// handler of ours sees it.
void EndsItself(int number) {
  struct sigaction present = {};
  if (std::find(std::begin(kFatal), std::end(kFatal), number) == std::end(kFatal)) return;
  if (sigaction(number, nullptr, &present) != 0 || (present.sa_flags & SA_SIGINFO) || present.sa_handler != SIG_DFL)
    return;
  End("signal", number);
}

template <class Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

void WatchForTheEnd() {
  for (int number : kFatal) {
    struct sigaction present = {};
    if (sigaction(number, nullptr, &present) != 0 || (present.sa_flags & SA_SIGINFO) || present.sa_handler != SIG_DFL)
      continue;
    struct sigaction ours = {};
    ours.sa_sigaction = &OnFatalSignal;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(number, &ours, nullptr);
  }
}

}  // namespace ebbtide::phantom

extern "C" {

int kill(pid_t process, int number) noexcept {
  if (process == getpid()) ebbtide::phantom::EndsItself(number);
  return ebbtide::phantom::Next<int(pid_t, int)>("kill")(process, number);
}

int raise(int number) noexcept {
  ebbtide::phantom::EndsItself(number);
  return ebbtide::phantom::Next<int(int)>("raise")(number);
}

void ebbtide_phantom_keep() {
  using namespace ebbtide::phantom;
  if (DeviceExists() && !InForkedChild() && TheDevice().pid == getpid()) WriteStatistics(TheDevice(), kSoFar, 0);
}

void ebbtide_phantom_finish(int signal) { ebbtide::phantom::End(signal == 0 ? "exit" : "signal", signal); }

[[noreturn]] void _exit(int status) {
  ebbtide::phantom::End("_exit");
  ebbtide::phantom::Next<void(int)>("_exit")(status);
  __builtin_unreachable();
}

[[noreturn]] void _Exit(int status) {
  ebbtide::phantom::End("_exit");
  ebbtide::phantom::Next<void(int)>("_Exit")(status);
  __builtin_unreachable();
}

[[noreturn]] void quick_exit(int status) noexcept {
  ebbtide::phantom::End("_exit");
  ebbtide::phantom::Next<void(int)>("quick_exit")(status);
  __builtin_unreachable();
}
}
