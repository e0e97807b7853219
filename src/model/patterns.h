// Patterns by which a user chooses layers or parameters: '*' stands for any characters (dots too), '?' for one, '[ab]'
// for one of those. Paths are as torch has them: "layer1.0.conv1.weight".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/builder.h"

namespace ebbtide::model {

bool Matches(const std::string& pattern, const std::string& path);

// The shortest part of `path`, from its beginning to a dot or to the end, that matches; empty: none does. So a pattern
// that matches a module chooses all that is in it.
std::string_view MatchedPart(const std::string& pattern, std::string_view path);

// Fails where a pattern of the options chooses nothing, or nothing is left to train. To be called once the forward pass
// is recorded.
Status CheckChoices(const Builder& builder);

}  // namespace ebbtide::model
