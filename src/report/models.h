// The list of built-in models, for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "model/model.h"
#include "report/json.h"
#include "report/terminal.h"

namespace ebbtide::report {

// `models`: [{name, family, description}].
Json ModelsJson(const std::vector<model::BuiltInModel>& models);

// One block per family, families in the order of their first model.
std::string ModelsText(const std::vector<model::BuiltInModel>& models, const Terminal& terminal);

}  // namespace ebbtide::report
