// The memory of a device or a host as people write it.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace ebbtide {

// As ParseBytes. Nobody has less than 1 MiB: a smaller number without a unit is asked for one.
inline Result<Bytes> ParseMemory(std::string_view text) {
  EBB_ASSIGN_OR_RETURN(const Bytes bytes, ParseBytes(text));
  const bool bare = text.find_first_not_of(" .0123456789") == std::string_view::npos;
  if (bare && bytes > 0 && bytes < kMiB) {
    while (text.ends_with(' ')) text.remove_suffix(1);
    return Fail("'{}': expected a unit, as {}GiB or {}MiB ({}B if bytes are meant)", text, text, text, text);
  }
  return bytes;
}

}  // namespace ebbtide
