// The text of --help.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace ebbtide::cli {

// What the program or a verb is for, its usage, and its flags by group; lines are broken to the terminal's width.
class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace ebbtide::cli
