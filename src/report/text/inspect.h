// The table of `ebbtide inspect`.
#pragma once

#include <string>

#include "jobs/inspect.h"
#include "report/text/terminal.h"

namespace ebbtide::report {

std::string InspectText(const jobs::InspectResult& inspection, const Terminal& terminal);

}  // namespace ebbtide::report
