// Sizes of placeholders that the file leaves open.
#pragma once

#include "model/model.h"
#include "model/tensorflow/graph_def.h"

namespace ebbtide::model::tensorflow {

// `declared`: -1 where open. The first axis is the batch; other open ones are the sides of an image (four axes), else a
// number of tokens. A flag that contradicts a size of the file is an error.
Result<Dims> BindInput(const std::optional<Dims>& declared, DType dtype, const ModelOptions& options);

}  // namespace ebbtide::model::tensorflow
