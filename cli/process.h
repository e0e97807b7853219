// Programs that we start on the user's behalf.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace ebbtide::cli {

// What a child process does with the standard output it inherits.
enum class ChildOutput {
  kKeep,      // writes to ours
  kToErrors,  // writes to our standard error: the child's chatter must not mix with our data
};

// Whose an interrupt from the keyboard is while a child runs.
enum class ChildInterrupts {
  kOurs,     // the child has it too, and is ended with us soon after (interrupt.h). It begins with SIGINT blocked
  kPrograms  // the user's program handles the first as it likes; a second ends both
};

// Our environment with some variables changed.
class Environment {
 public:
  Environment();                                   // as it is
  std::string Get(const std::string& name) const;  // empty where it is not set
  void Set(const std::string& name, const std::string& value) { variables_[name] = value; }
  void Unset(const std::string& name) { variables_.erase(name); }
  // `value`, then what was there, with a ':' between.
  void Prepend(const std::string& name, const std::string& value);
  std::vector<std::string> Texts() const;  // "NAME=value"

 private:
  std::map<std::string, std::string> variables_;
};

// Runs words[0], a path, to its end: its exit code, 128 + n where signal n ended it. While it runs, signals that
// somebody sends to us are passed on; the terminal sends its own to both. Fails at once where an interrupt has come
// before.
Result<int> RunProcess(const std::vector<std::string>& words, const Environment& environment, ChildOutput output,
                       ChildInterrupts interrupts = ChildInterrupts::kOurs);

// Ends the child that RunProcess waits for, if any, and all that it has started. From any thread.
void KillRunningChild();

// From now on, processes that our children leave behind are ours to wait for.
void AdoptOrphans();
// Returns when no child of ours is left, or after `patience`.
void WaitForOrphans(std::chrono::milliseconds patience);

// What words[0] prints, up to 64 KiB of it; nullopt where it cannot be run or fails. Its errors are dropped.
std::optional<std::string> OutputOf(const std::vector<std::string>& words, const Environment& environment);

bool IsProgram(const std::string& path);
// The path of a program as a shell finds it: as it stands where it has a '/', else on PATH.
std::optional<std::string> FindProgram(const std::string& name);
// The folder that this program lies in, links followed.
std::string FolderOfProgram();

}  // namespace ebbtide::cli
