// Every correct program of stream_bugs.cc is free of races; of at least fifty wrong ones no more than one goes unseen.
#include "tests/phantom/stream_bugs.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/phantom/fresh_process.h"

namespace ebbtide::phantom {
namespace {

constexpr int kClean = 10, kRaces = 11;

int EndOf(const BugProgram& program, const std::string& bug) {
  Ended ended = RunToTheEnd({{"CHECK", "race"}}, [&] {
    StartDriver();
    BugRun run(bug);
    program.run(run);
    if (testing::Test::HasFailure()) _exit(1);
    _exit(ebbtide_phantom_race_count() > 0 ? kRaces : kClean);
  });
  EXPECT_TRUE(WIFEXITED(ended.status)) << program.name << ": " << bug << "\n" << ended.errors;
  return WEXITSTATUS(ended.status);
}

// The names of the bugs that a program can have.
std::vector<std::string> BugsOf(const BugProgram& program) {
  std::vector<std::string> bugs;
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  RunToTheEnd({{"CHECK", "race"}}, [&] {
    StartDriver();
    BugRun run("");
    program.run(run);
    for (const std::string& name : run.names()) EXPECT_GT(write(ends[1], (name + "\n").c_str(), name.size() + 1), 0);
    _exit(0);
  });
  close(ends[1]);
  std::string text(65536, '\0');
  ssize_t size = read(ends[0], text.data(), text.size());
  close(ends[0]);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    bugs.push_back(text.substr(begin, end - begin));
  return bugs;
}

TEST(StreamBugs, AreFoundAndCorrectProgramsAreNotBlamed) {
  int bugs = 0;
  std::vector<std::string> unseen;
  for (const BugProgram& program : BugPrograms()) {
    EXPECT_EQ(EndOf(program, ""), kClean) << program.name;
    for (const std::string& bug : BugsOf(program)) {
      ++bugs;
      int ended = EndOf(program, bug);
      EXPECT_TRUE(ended == kRaces || ended == kClean) << program.name << ": " << bug;
      if (ended != kRaces) unseen.push_back(std::string(program.name) + ": " + bug);
    }
  }
  EXPECT_GE(bugs, 50);
  EXPECT_LE(unseen.size(), 1u) << testing::PrintToString(unseen);
  RecordProperty("bugs", bugs);
  RecordProperty("unseen", static_cast<int>(unseen.size()));
}

}  // namespace
}  // namespace ebbtide::phantom
