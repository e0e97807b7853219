// `ebbtide models` as JSON.
#pragma once

#include <vector>

#include "model/model.h"
#include "report/json.h"

namespace ebbtide::report {

// `models`: [{name, family, description}].
Json ModelsJson(const std::vector<model::BuiltInModel>& models);

}  // namespace ebbtide::report
