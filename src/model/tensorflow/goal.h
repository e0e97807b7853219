// What of a file is run: one signature of a SavedModel, or all of a plain graph.
#pragma once

#include "model/tensorflow/inline.h"

namespace ebbtide::model::tensorflow {

// A signature that trains where there is one, else serving_default, else the first. In inference the other way round.
Result<Goal> ChooseGoal(const File& file, const ModelOptions& options);

// Whether the operator computes a gradient or updates a parameter by one.
bool IsTrainingOperator(std::string_view op);

}  // namespace ebbtide::model::tensorflow
