// Children by fork: the parent has no threads and no device.
#include "tests/support/phantom/fresh_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/folders.h"

namespace ebbtide::phantom {
namespace {

void SetUp(const Variables& variables) {
  setenv("EBBTIDE_PHANTOM_PROFILE", (SourceFolder() / "tests/phantom/test-gpu.json").c_str(), 1);
  for (const auto& [name, value] : variables) setenv(("EBBTIDE_PHANTOM_" + name).c_str(), value.c_str(), 1);
}

}  // namespace

Ended RunToTheEnd(const Variables& variables, const std::function<void()>& body) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::fflush(nullptr);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    SetUp(variables);
    body();
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  close(ends[1]);
  Ended ended;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;)
    ended.errors.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  waitpid(child, &ended.status, 0);
  return ended;
}

void InFreshProcess(const Variables& variables, const std::function<void()>& body) {
  Ended ended = RunToTheEnd(variables, body);
  EXPECT_EQ(ended.status, 0) << "in the test's own process" << (ended.errors.empty() ? "" : ":\n") << ended.errors;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "phantom-test-XXXXXX").string();
  if (!mkdtemp(pattern.data())) std::abort();
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

std::string TemporaryFolder::OnlyJson() const {
  std::string found;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    if (entry.path().extension() != ".json") continue;
    if (!found.empty()) return "two files";
    std::ifstream file(entry.path());
    found.assign((std::istreambuf_iterator<char>(file)), {});
  }
  return found;
}

}  // namespace ebbtide::phantom
