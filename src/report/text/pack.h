// A static packing for people.
#pragma once

#include <string>

#include "jobs/pack.h"
#include "report/text/terminal.h"

namespace ebbtide::report {

std::string PackText(const jobs::PackResult& result, const Terminal& terminal);

}  // namespace ebbtide::report
