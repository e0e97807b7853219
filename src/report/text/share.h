// What `ebbtide share` shows: whether trainings fit together, how fast they are, where the memory goes.
#pragma once

#include <string>

#include "jobs/share.h"
#include "report/text/terminal.h"

namespace ebbtide::report {

std::string ShareText(const jobs::ShareResult& result, const Terminal& terminal);

}  // namespace ebbtide::report
