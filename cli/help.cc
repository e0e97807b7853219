// Lays out --help from what CLI11 knows of the program or a verb.
#include "cli/help.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "report/text/terminal.h"
#include "report/text/text.h"

namespace ebbtide::cli {
namespace {

constexpr int kNames = 26;      // columns of names of flags and verbs
constexpr int kReadable = 100;  // longer lines are hard to read

using Entry = std::pair<std::string, std::string>;  // a name, and what it is for

std::string Block(const std::string& title, const std::vector<Entry>& entries) {
  if (entries.empty()) return "";
  const int width = std::min(report::DescribeTerminal(STDOUT_FILENO).width, kReadable);
  std::string out = "\n" + title + ":\n";
  for (const auto& [name, text] : entries) {
    std::string left = report::PadRight("  " + name, kNames);
    if (!left.ends_with("  ")) left += "\n" + std::string(kNames, ' ');
    for (const std::string& line : report::Wrap(text, width - kNames)) {
      out += left + line + "\n";
      left = std::string(kNames, ' ');
    }
  }
  return out;
}

Entry Describe(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) names += "--" + name;
  if (option.get_type_size() != 0 && !option.get_type_name().empty()) names += " " + option.get_type_name();
  return {names, option.get_description()};
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const {
  std::vector<Entry> positionals, verbs;
  for (const CLI::Option* option : app->get_options([](const CLI::Option* o) { return o->get_positional(); })) {
    positionals.emplace_back(option->get_name(true, false), option->get_description());
  }
  for (const CLI::App* verb : app->get_subcommands({})) verbs.emplace_back(verb->get_name(), verb->get_description());

  std::string out = app->get_description() + "\n\nUsage: " + name;
  for (const Entry& positional : positionals) out += " " + positional.first;
  out += verbs.empty() ? " [FLAGS]\n" : " VERB [FLAGS]\n";
  out += Block("Input", positionals) + Block("Verbs", verbs);
  for (const std::string& group : app->get_groups()) {
    std::vector<Entry> flags;
    for (const CLI::Option* option :
         app->get_options([&](const CLI::Option* o) { return o->get_group() == group && o->nonpositional(); })) {
      if (option == app->get_help_ptr() && verbs.empty()) continue;  // its reader knows it
      flags.push_back(Describe(*option));
    }
    out += Block(group, flags);
  }
  if (!verbs.empty()) out += "\n`ebbtide help VERB` shows the flags of a verb.\n";
  return out;
}

}  // namespace ebbtide::cli
