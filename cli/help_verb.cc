// ebbtide help [VERB]: what --help prints, or the manual page.
#include <algorithm>
#include <memory>

#include "base/nearest.h"
#include "cli/common_flags.h"
#include "cli/manual.h"
#include "cli/output.h"
#include "cli/verb.h"

namespace ebbtide::cli {
namespace {

struct HelpFlags {
  std::string verb;
  bool man = false;
  OutputFlags output;
};

Result<int> RunHelp(const HelpFlags& flags, const CLI::App& program) {
  const CLI::App* about = &program;
  if (!flags.verb.empty()) {
    std::vector<std::string> names;
    for (const CLI::App* verb : program.get_subcommands([](const CLI::App*) { return true; })) {
      if (verb->get_name() == flags.verb) about = verb;
      names.push_back(verb->get_name());
    }
    if (about == &program) {
      return Fail("{}: expected a verb, {}{}", flags.verb, JoinWithOr(names), DidYouMean(flags.verb, names));
    }
  }
  const std::string name = about == &program ? "ebbtide" : "ebbtide " + flags.verb;
  const std::string text = !flags.man ? about->get_formatter()->make_help(about, name, CLI::AppFormatMode::Normal)
                           : about == &program ? ProgramManual(program)
                                               : VerbManual(*about);
  return EmitScript(flags.output, "help", text);
}

}  // namespace

Verb AddHelp(CLI::App& program) {
  CLI::App* app = program.add_subcommand("help", "Show the flags of a verb, or its manual page");
  const auto flags = std::make_shared<HelpFlags>();
  app->add_option("VERB", flags->verb, "One of those that `ebbtide --help` lists (default: the program)")
      ->type_name("");
  app->add_flag("--man", flags->man, "The manual page, as in: ebbtide help --man plan | man -l -")
      ->disable_flag_override();
  AddOutputFlags(*app, flags->output, "Write the text to FILE instead");
  return {app, [flags, &program] { return RunHelp(*flags, program); }};
}

}  // namespace ebbtide::cli
