// What shells need to complete our command line.
#pragma once

#include <string>
#include <vector>

#include "cli/grammar.h"

namespace ebbtide::cli {

// A script for the shell of that name. Names that are built in (models, GPUs, policies) are part of it, so that a key
// press starts nothing.
std::string BashCompletion(const std::vector<VerbGrammar>& verbs);
std::string ZshCompletion(const std::vector<VerbGrammar>& verbs);
std::string FishCompletion(const std::vector<VerbGrammar>& verbs);

}  // namespace ebbtide::cli
