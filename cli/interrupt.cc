// A handler that notes the signal and wakes a thread, which sees to it that the process ends.
#include "cli/interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <thread>

#include "cli/process.h"
#include "cli/temporary_folder.h"
#include "report/text/terminal.h"

namespace ebbtide::cli {
namespace {

constexpr std::chrono::milliseconds kGrace{700};  // for ends that leave nothing behind

std::atomic<bool> interrupted = false;
std::atomic<bool> said = false;
int wake_up = -1;  // the end of a pipe that the handler writes to

void OnSignal(int) { NoteInterrupt(); }

// Returns only where the pipe is gone.
void EndAfterGrace(int pipe) {
  char byte = 0;
  ssize_t count = 0;
  while ((count = read(pipe, &byte, 1)) < 0 && errno == EINTR) {
  }
  if (count != 1) return;
  std::this_thread::sleep_for(kGrace);
  KillRunningChild();
  RemoveTemporaryFolders();
  SayInterrupted();
  _exit(kInterrupted);
}

}  // namespace

void HandleInterrupts() {
  struct sigaction present = {};
  sigaction(SIGINT, nullptr, &present);
  if (present.sa_handler == SIG_IGN) return;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  wake_up = ends[1];
  // The thread takes no signals, so that handlers run where the work is.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(EndAfterGrace, ends[0]).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  struct sigaction ours = {};
  ours.sa_handler = &OnSignal;
  ours.sa_flags = SA_RESTART;
  sigaction(SIGINT, &ours, nullptr);
}

bool Interrupted() { return interrupted; }

void NoteInterrupt() {
  if (wake_up < 0 || interrupted.exchange(true)) return;
  const int kept = errno;
  if (write(wake_up, "", 1) != 1) _exit(kInterrupted);
  errno = kept;
}

void SayInterrupted() {
  if (said.exchange(true)) return;
  const char* const line = "ebbtide: interrupted\n";
  const bool terminal = report::DescribeTerminal(STDERR_FILENO).interactive;
  const std::string text = (terminal ? "\r\x1b[K" : "") + std::string(line);
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

}  // namespace ebbtide::cli
