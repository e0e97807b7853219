// Captures a SCRIPT.py:function by starting Python, and reads the graphs that it writes.
#include "cli/python_capturer.h"

#include <fmt/format.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/python.h"
#include "cli/temporary_folder.h"
#include "graph/json.h"
#include "jobs/model.h"
#include "report/text/terminal.h"

namespace ebbtide::cli {

Status PythonCapturer::Run(const jobs::ModelRequest& request, const std::string& file,
                           const std::vector<std::string>& extra) const {
  if (report::DescribeTerminal(STDERR_FILENO).interactive) Note(output_, fmt::format("capturing {}", request.model));
  std::vector<std::string> words = ShapeWords(request);
  const model::Device device = request.options.device;
  if (device == model::Device::kCuda && !request.Gave("--device")) words.push_back("--device=cuda");
  if (output_.threads > 0) words.push_back(fmt::format("--threads={}", output_.threads));
  words.insert(words.end(), extra.begin(), extra.end());
  words.insert(words.end(), {"-o", file, "-q", fmt::format("--seed={}", output_.seed), "--", request.model});
  EBB_ASSIGN_OR_RETURN(const int code, RunCaptureCommand(words, device, ChildOutput::kToErrors));
  if (code != 0) return FailAs(ErrorKind::kTold, "{}: it could not be captured", request.model);
  return {};
}

Result<TrainingGraph> PythonCapturer::Capture(const jobs::ModelRequest& request) {
  EBB_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  const std::string file = folder.File("step.json");
  EBB_RETURN_IF_ERROR(Run(request, file, {}));
  return ReadGraph(file);
}

Result<std::vector<TrainingGraph>> PythonCapturer::CaptureBatches(const jobs::ModelRequest& request) {
  EBB_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  EBB_RETURN_IF_ERROR(Run(request, folder.File("step.json"), {"--any-batch"}));
  std::vector<TrainingGraph> graphs;
  for (const char* name : {"step.json", "step.second.json", "step.third.json"}) {
    EBB_ASSIGN_OR_RETURN(TrainingGraph graph, ReadGraph(folder.File(name)));
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

}  // namespace ebbtide::cli
