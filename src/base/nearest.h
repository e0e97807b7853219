// "Did you mean": the names nearest to one that was not found.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ebbtide {

// At most `count` of the candidates that a slip of the keys or of memory could have turned into `name`, nearest
// first, ties in the order given. Case, '-', '_', '.' and spaces make no difference. Where some candidates hold `name`
// ("a100" of a100-40gb, "4090" of rtx4090) or end it ("GeForce RTX 4090"), it is one of those, and others are not
// guessed at.
std::vector<std::string> NearestNames(std::string_view name, const std::vector<std::string>& candidates,
                                      std::size_t count = 3);

// "; did you mean a, b or c?", or nothing where no candidate is near: to be put behind an error message.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates);

// "a, b or c".
std::string JoinWithOr(const std::vector<std::string>& names);

}  // namespace ebbtide
