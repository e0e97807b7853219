#include "cli/python.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

extern char** environ;

namespace ebbtide::cli {
namespace {

namespace fs = std::filesystem;

bool IsProgram(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

fs::path FolderOfProgram() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

std::optional<std::string> OnPath(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const fs::path candidate = fs::path(rest.substr(0, end)) / name;
    if (end > 0 && IsProgram(candidate)) return candidate.string();
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return std::nullopt;
}

// Our environment, with the package of this build in front of PYTHONPATH.
std::vector<std::string> ChildEnvironment() {
  std::error_code error;
  const fs::path package = FolderOfProgram() / "python-path";
  const bool in_build = fs::is_directory(package, error);
  std::vector<std::string> variables;
  std::string python_path = package.string();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    constexpr std::string_view kName = "PYTHONPATH=";
    if (in_build && text.starts_with(kName)) {
      if (text.size() > kName.size()) python_path += ":" + std::string(text.substr(kName.size()));
    } else {
      variables.emplace_back(text);
    }
  }
  if (in_build) variables.push_back("PYTHONPATH=" + python_path);
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// The child's exit code. While it runs, an interrupt from the keyboard is the child's to handle: we go on to clean up.
Result<int> Run(std::vector<std::string> words, ChildOutput output) {
  std::vector<std::string> variables = ChildEnvironment();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (output == ChildOutput::kToErrors) posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t interrupts;
  sigemptyset(&interrupts);
  sigaddset(&interrupts, SIGINT);
  sigaddset(&interrupts, SIGQUIT);
  posix_spawnattr_setsigdefault(&attributes, &interrupts);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);

  const auto on_interrupt = std::signal(SIGINT, SIG_IGN);
  const auto on_quit = std::signal(SIGQUIT, SIG_IGN);
  pid_t child = 0;
  int status = 0;
  int failure =
      posix_spawn(&child, words[0].c_str(), &actions, &attributes, Pointers(words).data(), Pointers(variables).data());
  while (failure == 0 && waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) failure = errno;
  }
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGQUIT, on_quit);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return Fail("{}: cannot be run: {}", words[0], std::strerror(failure));
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Looks for the packages without importing them: torch takes seconds to import, and its absence deserves a clear line.
Status CheckPackages(const std::string& python) {
  constexpr int kNoEbbtide = 11, kNoTorch = 12;
  const std::string probe = fmt::format(
      "import sys; from importlib.util import find_spec; "
      "sys.exit({} if find_spec('ebbtide') is None else {} if find_spec('torch') is None else 0)",
      kNoEbbtide, kNoTorch);
  EBB_ASSIGN_OR_RETURN(const int code, Run({python, "-c", probe}, ChildOutput::kToErrors));
  if (code == 0) return {};
  constexpr const char* kRemedy = "install it there, or let EBBTIDE_PYTHON name a Python that has it";
  if (code == kNoEbbtide) return Fail("{} has no package ebbtide: {}", python, kRemedy);
  if (code == kNoTorch) return Fail("{} has no package torch: {}", python, kRemedy);
  return Fail("{}: expected a Python 3 interpreter, but it ended with code {}", python, code);
}

}  // namespace

Result<std::string> FindPython() {
  if (const char* named = std::getenv("EBBTIDE_PYTHON"); named != nullptr && *named != '\0') {
    if (!IsProgram(named)) return Fail("EBBTIDE_PYTHON: expected the path of a Python interpreter, found {}", named);
    return std::string(named);
  }
  if (const fs::path beside = FolderOfProgram() / "python"; IsProgram(beside)) return beside.string();
  if (const auto found = OnPath("python3")) return *found;
  return Fail("needs Python with torch: expected EBBTIDE_PYTHON to name one, or python3 on PATH");
}

Result<int> RunCaptureCommand(const std::vector<std::string>& arguments, ChildOutput output) {
  EBB_ASSIGN_OR_RETURN(const std::string python, FindPython());
  EBB_RETURN_IF_ERROR(CheckPackages(python));
  std::vector<std::string> words = {python, "-m", "ebbtide.capture_command"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return Run(std::move(words), output);
}

bool NamesScriptFunction(const std::string& model) {
  const std::size_t at = model.rfind(".py:");
  return at != std::string::npos && at > 0 && at + 4 < model.size();
}

}  // namespace ebbtide::cli
