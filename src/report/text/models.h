// The list of built-in models, for people.
#pragma once

#include <string>
#include <vector>

#include "model/model.h"
#include "report/text/terminal.h"

namespace ebbtide::report {

// One block per family, families in the order of their first model.
std::string ModelsText(const std::vector<model::BuiltInModel>& models, const Terminal& terminal);

}  // namespace ebbtide::report
