// Names of outputs: functions refer to them by name, and we to all by number.
#pragma once

#include <string_view>

namespace ebbtide::model::tensorflow {

// Number of the output of that name; 0 for operators whose outputs all have one name.
int PlaceOfOutput(std::string_view op, std::string_view output);

}  // namespace ebbtide::model::tensorflow
