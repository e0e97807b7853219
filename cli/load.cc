#include "cli/load.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "cli/output.h"
#include "cli/python.h"
#include "report/terminal.h"

namespace ebbtide::cli {
namespace {

namespace fs = std::filesystem;

// A folder of our own that goes away with its contents.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> Make() {
    std::error_code error;
    std::string path = (fs::temp_directory_path(error) / "ebbtide-XXXXXX").string();
    if (error || mkdtemp(path.data()) == nullptr) {
      return Fail("TMPDIR: expected a folder to write to: {}", error ? error.message() : std::strerror(errno));
    }
    return TemporaryFolder(path);
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  std::string File(const std::string& name) const { return (path_ / name).string(); }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  fs::path path_;
};

Status RefuseShaping(const ModelFlags& model, const char* why) {
  for (const CLI::Option* flag : model.shaping) {
    if (flag->count() > 0) return Fail("{}: of no use with {}, {}", flag->get_name(), model.model, why);
  }
  return {};
}

Result<TrainingGraph> CaptureAndLoad(const ModelFlags& model, const OutputFlags& output) {
  EBB_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  const std::string file = folder.File("step.json");
  if (report::DescribeTerminal(STDERR_FILENO).interactive) Note(output, fmt::format("capturing {}", model.model));
  EBB_ASSIGN_OR_RETURN(const int code,
                       RunCaptureCommand({model.model, "-o", file, "-q"}, ChildOutput::kToErrors));
  if (code != 0) return tl::unexpected<Error>(Error{});
  return model::LoadModel(file, model.options);
}

}  // namespace

Result<TrainingGraph> Load(const ModelFlags& model, const OutputFlags& output) {
  if (NamesScriptFunction(model.model)) {
    EBB_RETURN_IF_ERROR(RefuseShaping(model, "whose function makes the batch and the optimizer"));
    return CaptureAndLoad(model, output);
  }
  if (model.model.ends_with(".json") || model.model.ends_with(".json.gz")) {
    EBB_RETURN_IF_ERROR(RefuseShaping(model, "a graph whose shapes and optimizer are fixed"));
  }
  return model::LoadModel(model.model, model.options);
}

}  // namespace ebbtide::cli
