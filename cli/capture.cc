// ebbtide capture SCRIPT.py:function -o step.json: the training step of a PyTorch program as a graph. Python does it
// (python/ebbtide/capture_command.py); this file checks the usage, so that mistakes are told without loading torch.
#include <memory>
#include <string>
#include <vector>

#include "cli/common_flags.h"
#include "cli/python.h"
#include "cli/verb.h"

namespace ebbtide::cli {
namespace {

struct CaptureFlags {
  std::string target;
  OutputFlags output;
};

Result<int> RunCapture(const CaptureFlags& flags) {
  if (flags.target.empty()) return Fail("expected a SCRIPT.py:function");
  if (!NamesScriptFunction(flags.target)) return Fail("{}: expected a SCRIPT.py:function", flags.target);
  if (flags.output.output.empty()) return Fail("expected -o FILE for the graph");
  if (const std::string& path = flags.output.output; !path.ends_with(".json") && !path.ends_with(".json.gz")) {
    return Fail("-o {}: expected a name that ends in .json or .json.gz", path);
  }
  std::vector<std::string> arguments = {flags.target, "-o", flags.output.output};
  if (flags.output.json) arguments.push_back("--json");
  if (flags.output.quiet) arguments.push_back("-q");
  if (flags.output.verbose) arguments.push_back("-v");
  EBB_ASSIGN_OR_RETURN(const int code, RunCaptureCommand(arguments, ChildOutput::kKeep));
  return code == 1 ? kBadInput : code;
}

}  // namespace

Verb AddCapture(CLI::App& program) {
  CLI::App* app = program.add_subcommand("capture", "Record the training step of a PyTorch program as a graph");
  const auto flags = std::make_shared<CaptureFlags>();
  app->add_option("SCRIPT.py:function", flags->target,
                  "Returns (model, loss_fn, optimizer, batch); the batch may be a tuple, a dict or one tensor")
      ->type_name("");
  AddOutputFlags(*app, flags->output, "The graph: .json or .json.gz");
  return {app, [flags] { return RunCapture(*flags); }};
}

}  // namespace ebbtide::cli
