// The memory of a device or a host as people write it.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace ebbtide {

// What a GPU has in GiB: smaller numbers without a unit are seldom meant as bytes.
inline constexpr Bytes kLeastBareNumber = 128;

// As ParseBytes, but a bare number below that is asked for its unit.
inline Result<Bytes> ParseMemory(std::string_view text) {
  EBB_ASSIGN_OR_RETURN(const Bytes bytes, ParseBytes(text));
  const bool bare = text.find_first_not_of(" .0123456789") == std::string_view::npos;
  if (bare && bytes > 0 && bytes < kLeastBareNumber) {
    while (text.ends_with(' ')) text.remove_suffix(1);
    return Fail("'{}': expected a unit, as {}GiB or {}MiB ({}B if bytes are meant)", text, text, text, text);
  }
  return bytes;
}

}  // namespace ebbtide
