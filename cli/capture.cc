// ebbtide capture SCRIPT.py:function -o step.json: the training step of a PyTorch program as a graph. Python does it
// (python/ebbtide/commands/capture.py); this file checks the usage, so that mistakes are told without loading torch.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/common_flags.h"
#include "cli/python.h"
#include "cli/verb.h"
#include "model/script.h"
#include "model/source.h"

namespace ebbtide::cli {
namespace {

struct CaptureFlags {
  ModelFlags model;
  OutputFlags output;
  bool any_batch = false;
  std::string kernels = "eager";
};

Status CheckTarget(const ModelFlags& flags) {
  if (flags.model.empty()) return Fail("expected a SCRIPT.py:function");
  EBB_RETURN_IF_ERROR(model::CheckFunctionNamed(flags.model));
  if (model::SourceOf(flags.model) == model::ModelSource::kScript) return {};
  EBB_RETURN_IF_ERROR(CheckBuiltIn(flags.model, "a SCRIPT.py:function or a built-in model"));
  return jobs::CheckModel(RequestOf(flags));
}

Result<int> RunCapture(const CaptureFlags& flags) {
  EBB_RETURN_IF_ERROR(CheckTarget(flags.model));
  const std::string& path = flags.output.output;
  if (path.empty()) return Fail("expected -o FILE for the graph");
  if (!path.ends_with(".json") && !path.ends_with(".json.gz")) {
    return Fail("-o {}: expected a name that ends in .json or .json.gz", path);
  }
  std::vector<std::string> words = ShapeWords(RequestOf(flags.model));
  words.insert(words.end(), {"-o", path, fmt::format("--seed={}", flags.output.seed)});
  if (flags.output.threads > 0) words.push_back(fmt::format("--threads={}", flags.output.threads));
  if (flags.any_batch) words.push_back("--any-batch");
  if (flags.kernels != "eager" && flags.kernels != "inductor") {
    return Fail("--kernels {}: expected eager or inductor", flags.kernels);
  }
  if (flags.any_batch && flags.kernels != "eager") return Fail("--kernels: expected none with --any-batch");
  words.push_back("--kernels=" + flags.kernels);
  if (flags.output.json) words.push_back("--json");
  if (flags.output.quiet) words.push_back("-q");
  if (flags.output.verbose) words.push_back("-v");
  words.insert(words.end(), {"--", flags.model.model});
  EBB_ASSIGN_OR_RETURN(const int code, RunCaptureCommand(words, flags.model.options.device, ChildOutput::kKeep));
  return code == 1 ? kBadInput : code;  // 1 is how Python ends with a traceback; here it would mean an answer
}

}  // namespace

Verb AddCapture(CLI::App& program) {
  CLI::App* app = program.add_subcommand("capture", "Record the training step of a PyTorch program as a graph");
  const auto flags = std::make_shared<CaptureFlags>();
  app->add_option("SCRIPT.py:function", flags->model.model,
                  "Returns (model, loss_fn, optimizer, batch); shape flags are given to it as keywords "
                  "(batch_size=...). Or a built-in model, as PyTorch has it")
      ->type_name("");
  AddShapeFlags(*app, flags->model);
  app->add_flag(
         "--any-batch", flags->any_batch,
         "Three captures, from which the step at any batch follows: FILE, .second.json and .third.json beside it")
      ->disable_flag_override();
  app->add_option("--kernels", flags->kernels,
                  "eager (default), or inductor: the step as Inductor compiles it, an op for each of its kernels")
      ->type_name("NAME");
  AddOutputFlags(*app, flags->output, "The graph: .json or .json.gz");
  return {app, [flags] { return RunCapture(*flags); }};
}

}  // namespace ebbtide::cli
