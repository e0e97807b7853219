// Scripts that are named without a function: what a user may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ebbtide::model {

// The functions that a Python file defines at its top level, in order, told from its text: nothing is run. Those that
// can be called without arguments come first.
std::vector<std::string> FunctionsOf(std::string_view source);

// Fails where `model` is a SCRIPT.py, or SCRIPT.py: with nothing behind: the error lists the functions that can be put
// behind the colon. Anything else passes.
Status CheckFunctionNamed(const std::string& model);

}  // namespace ebbtide::model
