// Why a training ran out of memory, for people.
#pragma once

#include <string>

#include "jobs/explain.h"
#include "report/text/terminal.h"

namespace ebbtide::report {

std::string ExplainText(const jobs::ExplainResult& result, const Terminal& terminal);

}  // namespace ebbtide::report
