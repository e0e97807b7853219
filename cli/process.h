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

// Runs words[0], a path, to its end: its exit code, 128 + n where signal n ended it. While it runs, an interrupt from
// the keyboard is the child's to handle, as the terminal sends it to both; signals that somebody sends to us are passed
// on.
Result<int> RunProcess(const std::vector<std::string>& words, const Environment& environment, ChildOutput output);

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
