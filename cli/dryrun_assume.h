// --assume of `ebbtide dryrun`: what stands in for values that depend on skipped kernels.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace ebbtide::cli {

// "masks=0.5" or several with commas between, as docs/dryrun.md lists them; the same as one text for the program's
// process (python/ebbtide/observer/values_assume.cc). Later ones win.
Result<std::string> ParseAssume(const std::vector<std::string>& given);

}  // namespace ebbtide::cli
