// The command line as data, read off CLI11: what help, manual pages and shell completion are made of.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ebbtide::cli {

// What stands behind a flag, or in the place of a word.
enum class Values {
  kNone,           // nothing: a switch
  kText,           // nothing that could be listed
  kListed,         // one of `listed`, or at least often one of them
  kFiles,          // a path
  kListedOrFiles,  // one of `listed`, or a path
};

struct Flag {
  std::string short_name;  // "-o"; may be empty
  std::string long_name;   // "--output"
  std::string value;       // "FILE"; empty where it takes none
  std::string description;
  std::string group;
  Values values = Values::kNone;
  std::vector<std::string> listed = {};
};

struct Word {
  std::string name;  // "MODEL"
  std::string description;
  Values values = Values::kText;
  std::vector<std::string> listed = {};
};

struct VerbGrammar {
  std::string name, description;
  std::vector<Word> words;
  std::vector<Flag> flags;          // in the order of their groups
  std::vector<std::string> groups;  // that have flags
};

// Whether the verb takes "--" and a program's own command line behind it.
bool RunsProgram(std::string_view verb);

// Verbs in the order in which --help lists them.
std::vector<VerbGrammar> GrammarOf(const CLI::App& program);
VerbGrammar GrammarOfVerb(const CLI::App& verb);

}  // namespace ebbtide::cli
