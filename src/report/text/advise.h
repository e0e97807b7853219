// What makes a training fit, for people.
#pragma once

#include <string>

#include "jobs/advise.h"
#include "report/text/terminal.h"

namespace ebbtide::report {

std::string AdviseText(const jobs::AdviseResult& result, const Terminal& terminal);

}  // namespace ebbtide::report
