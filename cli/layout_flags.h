// Flags of the verbs that take a rank of many: how many GPUs there are, and how they share a training.
#pragma once

#include <CLI/CLI.hpp>

#include "parallel/layout.h"

namespace ebbtide::cli {

void AddLayoutFlags(CLI::App& verb, parallel::Layout& layout);

}  // namespace ebbtide::cli
