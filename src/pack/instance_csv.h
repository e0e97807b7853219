// Packing instances as CSV: id,lower,upper,size, one item per row; and with a column offset, their solutions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pack/pack.h"

namespace ebbtide::pack {

// Text of more than this is refused.
inline constexpr Bytes kPackFileLimit = 256 * kMiB;

struct PackInstance {
  std::vector<std::string> ids;  // of each item, all different
  std::vector<PackItem> items;   // pass CheckPackItems
};

// `path` stands in front of errors. Columns of other names are passed over.
Result<PackInstance> ParsePackInstance(std::string_view text, const std::string& path);
Result<PackInstance> ReadPackInstance(const std::string& path);

// The instance with the column of offsets, one for each item.
std::string PackCsv(const PackInstance& instance, std::span<const Bytes> offsets);

}  // namespace ebbtide::pack
