// Manual pages, from the text of --help.
#pragma once

#include <string>

#include "cli/grammar.h"

namespace ebbtide::cli {

// ebbtide(1), in the language of man: the verbs and what holds for all of them.
std::string ProgramManual(const CLI::App& program);
// ebbtide-VERB(1).
std::string VerbManual(const CLI::App& verb);

}  // namespace ebbtide::cli
