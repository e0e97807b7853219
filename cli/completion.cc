// ebbtide completion SHELL: a script by which a shell completes our command line.
#include "cli/completion.h"

#include <memory>

#include "base/nearest.h"
#include "cli/common_flags.h"
#include "cli/output.h"
#include "cli/verb.h"

namespace ebbtide::cli {
namespace {

struct CompletionFlags {
  std::string shell;
  OutputFlags output;
};

Result<int> RunCompletion(const CompletionFlags& flags, const CLI::App& program) {
  const std::vector<VerbGrammar> verbs = GrammarOf(program);
  if (flags.shell == "bash") return EmitScript(flags.output, "completion", BashCompletion(verbs));
  if (flags.shell == "zsh") return EmitScript(flags.output, "completion", ZshCompletion(verbs));
  if (flags.shell == "fish") return EmitScript(flags.output, "completion", FishCompletion(verbs));
  return Fail("expected a SHELL, bash, zsh or fish{}{}", flags.shell.empty() ? "" : "; found ", flags.shell);
}

}  // namespace

Verb AddCompletion(CLI::App& program) {
  CLI::App* app = program.add_subcommand("completion", "Print what a shell needs to complete this command line");
  const auto flags = std::make_shared<CompletionFlags>();
  app->add_option("SHELL", flags->shell, "bash, zsh or fish; the first line of the script says where it goes")
      ->type_name("");
  AddOutputFlags(*app, flags->output, "Write the script to FILE instead");
  return {app, [flags, &program] { return RunCompletion(*flags, program); }};
}

}  // namespace ebbtide::cli
