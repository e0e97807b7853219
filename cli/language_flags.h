// Flags of a MODEL that is a Hugging Face configuration: how it is loaded and which kernels train it.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/common_flags.h"

namespace ebbtide::cli {

void AddLanguageFlags(CLI::App& verb, ModelFlags& flags);

}  // namespace ebbtide::cli
