// A page of what any verb has printed with --json.
#pragma once

#include <string>

#include "base/result.h"
#include "report/json.h"

namespace ebbtide::report {

// Also of a plan file. Fails where the object is not one of ours.
Result<std::string> ResultPage(const Json& result);

}  // namespace ebbtide::report
