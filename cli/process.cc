// Starts programs by posix_spawn, and passes signals on to the one that is waited for.
#include "cli/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <thread>

#include "cli/interrupt.h"

extern char** environ;

namespace ebbtide::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostOutput = 64 * 1024;
// Those that a person or a scheduler sends to end or to poke a program.
constexpr std::array kPassedOn = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

volatile std::sig_atomic_t running_child = 0;
volatile std::sig_atomic_t interrupts_of_child = 0;  // how many more are the child's alone

// The terminal sends its signals to the child too; the kernel marks them as its own.
void PassOn(int number, siginfo_t* info, void*) {
  if (number == SIGINT) {
    if (interrupts_of_child == 0) NoteInterrupt();
    if (interrupts_of_child > 0) interrupts_of_child = interrupts_of_child - 1;
  }
  if (running_child > 0 && info->si_code <= 0) kill(static_cast<pid_t>(running_child), number);
}

// While it lives, signals go to the child instead of ending us.
class SignalsPassedOn {
 public:
  SignalsPassedOn() {
    sigset_t all;
    sigemptyset(&all);
    for (int number : kPassedOn) sigaddset(&all, number);
    sigprocmask(SIG_BLOCK, &all, &mask_);  // until the child is known
    struct sigaction ours = {};
    ours.sa_sigaction = &PassOn;
    ours.sa_flags = SA_SIGINFO | SA_RESTART;
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) {
      sigaction(kPassedOn[i], nullptr, &before_[i]);
      ignored_[i] = before_[i].sa_handler == SIG_IGN;  // nohup: the child inherits it
      if (!ignored_[i]) sigaction(kPassedOn[i], &ours, nullptr);
    }
  }
  ~SignalsPassedOn() {
    running_child = 0;
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) sigaction(kPassedOn[i], &before_[i], nullptr);
    sigprocmask(SIG_SETMASK, &mask_, nullptr);
  }
  void Begin(pid_t child) {
    running_child = child;
    sigprocmask(SIG_SETMASK, &mask_, nullptr);
  }
  const sigset_t& mask() const { return mask_; }

 private:
  sigset_t mask_;
  std::array<struct sigaction, kPassedOn.size()> before_;
  std::array<bool, kPassedOn.size()> ignored_;
};

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

int Spawn(pid_t* child, std::vector<std::string> words, const Environment& environment,
          const posix_spawn_file_actions_t* actions, const sigset_t* mask) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  if (mask != nullptr) {
    posix_spawnattr_setsigmask(&attributes, mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  }
  std::vector<std::string> variables = environment.Texts();
  const int failure =
      posix_spawn(child, words[0].c_str(), actions, &attributes, Pointers(words).data(), Pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  return failure;
}

int Wait(pid_t child, int& status) {
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

Environment::Environment() {
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (const std::size_t at = text.find('='); at != std::string_view::npos) {
      variables_.emplace(text.substr(0, at), text.substr(at + 1));
    }
  }
}

std::string Environment::Get(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? "" : found->second;
}

void Environment::Prepend(const std::string& name, const std::string& value) {
  const std::string before = Get(name);
  Set(name, before.empty() ? value : value + ":" + before);
}

std::vector<std::string> Environment::Texts() const {
  std::vector<std::string> texts;
  for (const auto& [name, value] : variables_) texts.push_back(name + "=" + value);
  return texts;
}

Result<int> RunProcess(const std::vector<std::string>& words, const Environment& environment, ChildOutput output,
                       ChildInterrupts interrupts) {
  if (Interrupted()) return FailAs(ErrorKind::kStopped, "interrupted");
  interrupts_of_child = interrupts == ChildInterrupts::kPrograms ? 1 : 0;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (output == ChildOutput::kToErrors) posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  SignalsPassedOn signals;
  pid_t child = 0;
  int status = 0;
  sigset_t mask = signals.mask();
  if (interrupts == ChildInterrupts::kOurs) sigaddset(&mask, SIGINT);
  int failure = Spawn(&child, words, environment, &actions, &mask);
  posix_spawn_file_actions_destroy(&actions);
  if (failure == 0) {
    signals.Begin(child);
    failure = Wait(child, status);
  }
  if (failure != 0) return Fail("{}: cannot be run: {}", words[0], std::strerror(failure));
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

namespace {

// Those first that others have started, so that none is missed. Processes may come and go meanwhile.
void KillWithDescendants(pid_t process, int depth = 0) {
  constexpr int kDeepest = 16;
  std::error_code error;
  const fs::path tasks = "/proc/" + std::to_string(process) + "/task";
  for (fs::directory_iterator task(tasks, error), end; !error && depth < kDeepest && task != end;
       task.increment(error)) {
    std::ifstream children(task->path() / "children");
    for (pid_t child = 0; children >> child;) KillWithDescendants(child, depth + 1);
  }
  kill(process, SIGKILL);
}

}  // namespace

void KillRunningChild() {
  if (running_child > 0) KillWithDescendants(static_cast<pid_t>(running_child));
}

void AdoptOrphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

void WaitForOrphans(std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kPause{5};
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const pid_t ended = waitpid(-1, nullptr, WNOHANG);
    if (ended < 0 && errno != EINTR) return;  // there are none
    if (ended > 0) continue;
    if (std::chrono::steady_clock::now() >= end) return;
    std::this_thread::sleep_for(kPause);
  }
}

std::optional<std::string> OutputOf(const std::vector<std::string>& words, const Environment& environment) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  const int failure = Spawn(&child, words, environment, &actions, nullptr);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  char buffer[4096];
  ssize_t count = 0;
  while (failure == 0 && ((count = read(ends[0], buffer, sizeof(buffer))) > 0 || (count < 0 && errno == EINTR))) {
    if (count > 0 && text.size() < kMostOutput) text.append(buffer, static_cast<std::size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  if (failure != 0 || Wait(child, status) != 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  return text;
}

bool IsProgram(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

std::optional<std::string> FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return IsProgram(name) ? std::optional(name) : std::nullopt;
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty() && !name.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string candidate = fs::path(rest.substr(0, end)) / name;
    if (end > 0 && IsProgram(candidate)) return candidate;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return std::nullopt;
}

std::string FolderOfProgram() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().string();
}

}  // namespace ebbtide::cli
