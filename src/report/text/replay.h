// A trace that went through an allocator model, for people.
#pragma once

#include <string>

#include "jobs/replay.h"
#include "report/text/terminal.h"

namespace ebbtide::report {

std::string ReplayText(const jobs::ReplayResult& result, const Terminal& terminal);

}  // namespace ebbtide::report
