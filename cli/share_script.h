// ebbtide share --script: real programs, trained together here. Python does it (python/ebbtide/commands/share.py).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/common_flags.h"

namespace ebbtide::cli {

struct ShareScripts {
  std::vector<std::string> scripts;  // SCRIPT.py:function
  std::string capacity;
  std::string device = "cpu";
  int steps = 5;
  int groups = 16;
  std::string weights, priorities;
  std::vector<std::string> files;
};

// Runs them to their end and returns the exit code. Mistakes of usage are errors, found before torch is loaded.
Result<int> RunShareScripts(const ShareScripts& share, const ModelFlags& model, const OutputFlags& output);

}  // namespace ebbtide::cli
