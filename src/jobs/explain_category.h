// Whose memory an allocation is, told by the Python frames that made it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/held.h"

namespace ebbtide::jobs {

// "train.py:12" of the innermost frame that is neither torch's nor another installed package's; of the innermost one
// where all are; empty of no frame.
std::string ProgramLine(const trace::Stack& stack);
std::string ProgramFunction(const trace::Stack& stack);
// The innermost frame that is a module's forward; empty: none.
std::string ModuleLine(const trace::Stack& stack);

// Whether an optimizer's step made the allocation, whatever for.
bool IsUpdate(const trace::Stack& stack);

// The category of every allocation, by index: "parameter", "gradient", "optimizer_state", "input", "activation",
// "temporary", "other" (the program's own code) or "unknown".
std::vector<std::string_view> Categories(const trace::HeldMemory& memory);

}  // namespace ebbtide::jobs
