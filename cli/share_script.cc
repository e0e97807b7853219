// Checks the flags of `share --script` and turns them into the command line of ebbtide.commands.share.
#include "cli/share_script.h"

#include <fmt/format.h>

#include "base/memory_size.h"
#include "base/units.h"
#include "cli/output.h"
#include "cli/python.h"
#include "cli/verb.h"
#include "model/script.h"
#include "model/source.h"

namespace ebbtide::cli {

Result<int> RunShareScripts(const ShareScripts& share, const ModelFlags& model, const OutputFlags& output) {
  for (const std::string& script : share.scripts) {
    if (const Status named = model::CheckFunctionNamed(script); !named) return Within("--script", named.error());
    if (model::SourceOf(script) != model::ModelSource::kScript)
      return Fail("--script {}: expected SCRIPT.py:function", script);
  }
  if (share.capacity.empty()) return Fail("--script: expected --capacity, the memory for all of them, beside it");
  const Result<Bytes> capacity = ParseMemory(share.capacity);
  if (!capacity) return Within("--capacity", capacity.error());
  if (*capacity <= 0) return Fail("--capacity {}: expected a size such as 1GiB", share.capacity);
  if (share.device != "cpu" && share.device != "cuda") {
    return Fail("--device: expected cpu or cuda, found {}", share.device);
  }
  for (const std::string& file : share.files) EBB_RETURN_IF_ERROR(CheckFile(file, {".json", ".txt"}));

  std::vector<std::string> words;
  for (const std::string& word : ShapeWords(RequestOf(model))) {
    if (word.starts_with("--optimizer=")) return Fail("--optimizer: of no use with --script, which brings its own");
    words.push_back(word);
  }
  words.insert(words.end(),
               {"--capacity=" + share.capacity, "--device=" + share.device, fmt::format("--steps={}", share.steps),
                fmt::format("--groups={}", share.groups), fmt::format("--seed={}", output.seed)});
  if (!share.weights.empty()) words.push_back("--weights=" + share.weights);
  if (!share.priorities.empty()) words.push_back("--priorities=" + share.priorities);
  if (output.threads > 0) words.push_back(fmt::format("--threads={}", output.threads));
  if (output.json) words.push_back("--json");
  if (output.quiet) words.push_back("-q");
  if (output.verbose) words.push_back("-v");
  for (const std::string& file : share.files) words.insert(words.end(), {"-o", file});
  words.push_back("--");
  words.insert(words.end(), share.scripts.begin(), share.scripts.end());
  EBB_ASSIGN_OR_RETURN(const int code, RunPythonCommand("share", words, ChildOutput::kKeep));
  constexpr int kDoesNotFit = 3;  // 1 is how Python ends with a traceback
  return code == 1 ? kBadInput : code == kDoesNotFit ? kInfeasible : code;
}

}  // namespace ebbtide::cli
