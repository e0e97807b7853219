// The phantom reads its environment once and lives as long as the process, so every test has a process of its own.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace ebbtide::phantom {

using Variables = std::map<std::string, std::string>;  // without the prefix EBBTIDE_PHANTOM_

// Runs `body` in a child of this process, on tests/phantom/test-gpu.json (64 MiB, 4 MiB context) unless PROFILE says
// otherwise; failures in it are failures of the test. The parent must not have used the phantom.
void InFreshProcess(const Variables& variables, const std::function<void()>& body);
inline void InFreshProcess(const std::function<void()>& body) { InFreshProcess({}, body); }

// As above, where the child is expected to die: its status as waitpid gives it, and what it wrote to standard error.
struct Ended {
  int status = 0;
  std::string errors;
};
Ended RunToTheEnd(const Variables& variables, const std::function<void()>& body);

// A folder that is removed at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::string& path() const { return path_; }
  // The content of the only file there that ends in .json.
  std::string OnlyJson() const;

 private:
  std::string path_;
};

}  // namespace ebbtide::phantom
