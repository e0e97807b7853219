// Where tests and benchmarks find what they read.
#pragma once

#include <filesystem>

namespace ebbtide {

// The checkout that this was built from.
std::filesystem::path SourceFolder();
// Measurements made by others: the folder that EBBTIDE_DATA names, else ../shared/data beside the checkout. It need not
// be there.
std::filesystem::path DataFolder();

}  // namespace ebbtide
