#include "cli/capture_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "cli/output.h"
#include "cli/python.h"
#include "report/terminal.h"

namespace ebbtide::cli {
namespace {

Status Capture(const ModelFlags& model, const OutputFlags& output, const std::string& file,
               const std::vector<std::string>& extra) {
  if (report::DescribeTerminal(STDERR_FILENO).interactive) Note(output, fmt::format("capturing {}", model.model));
  std::vector<std::string> words = GivenShapeFlags(model);
  const auto is_device = [](const std::string& word) { return word.starts_with("--device="); };
  if (model.options.device == model::Device::kCuda && std::none_of(words.begin(), words.end(), is_device)) {
    words.push_back("--device=cuda");
  }
  if (output.threads > 0) words.push_back(fmt::format("--threads={}", output.threads));
  words.insert(words.end(), extra.begin(), extra.end());
  words.insert(words.end(), {"-o", file, "-q", fmt::format("--seed={}", output.seed), "--", model.model});
  EBB_ASSIGN_OR_RETURN(const int code, RunCaptureCommand(words, model.options.device, ChildOutput::kToErrors));
  if (code != 0) return tl::unexpected<Error>(Error{});
  return {};
}

}  // namespace

Status CaptureModel(const ModelFlags& model, const OutputFlags& output, const std::string& file) {
  return Capture(model, output, file, {});
}

Result<std::array<std::string, 3>> CaptureBatches(const ModelFlags& model, const OutputFlags& output,
                                                  const std::string& file) {
  EBB_RETURN_IF_ERROR(Capture(model, output, file, {"--any-batch"}));
  const std::string stem = file.substr(0, file.rfind(".json"));
  return std::array<std::string, 3>{file, stem + ".second.json", stem + ".third.json"};
}

}  // namespace ebbtide::cli
