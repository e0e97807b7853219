// A static packing as JSON; the fields are in docs/pack.md.
#pragma once

#include "jobs/pack.h"
#include "report/json.h"

namespace ebbtide::report {

Json PackJson(const jobs::PackResult& result);

}  // namespace ebbtide::report
