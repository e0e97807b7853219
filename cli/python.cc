// Finds a Python that has the packages, and runs modules of ebbtide.commands with it.
#include "cli/python.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "cli/phantom.h"
#include "cli/temporary_folder.h"

namespace ebbtide::cli {
namespace {

namespace fs = std::filesystem;

// Our environment, with the package of this build in front of PYTHONPATH.
Environment ChildEnvironment() {
  Environment environment;
  std::error_code error;
  const fs::path package = fs::path(FolderOfProgram()) / "python-path";
  if (fs::is_directory(package, error)) environment.Prepend("PYTHONPATH", package.string());
  return environment;
}

// What a Python of ours does at Ctrl-C; the line for the user is ours. It begins with the signal held back (process.h).
// A capture has nothing to put in order: the signal ends it, within kernels too. Others leave through their `with` and
// `finally`.
constexpr const char* kEndsAtOnce =
    "import signal\n"
    "if callable(signal.getsignal(signal.SIGINT)): signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})\n";
constexpr const char* kEndsQuietly =
    "import os, signal\n"
    "def _hook(kind, error, trace, _before=sys.excepthook):\n"
    "    os._exit(130) if issubclass(kind, KeyboardInterrupt) else _before(kind, error, trace)\n"
    "sys.excepthook = _hook\n"
    "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})\n";

// Looks for the packages without importing them: torch takes seconds to import, and its absence deserves a clear line.
Status CheckPackages(const std::string& python) {
  constexpr int kNoEbbtide = 11, kNoTorch = 12;
  const std::string probe = fmt::format(
      "{}{}from importlib.util import find_spec\n"
      "sys.exit({} if find_spec('ebbtide') is None else {} if find_spec('torch') is None else 0)",
      kWithoutCurrentFolder, kEndsAtOnce, kNoEbbtide, kNoTorch);
  EBB_ASSIGN_OR_RETURN(const int code, RunProcess({python, "-c", probe}, ChildEnvironment(), ChildOutput::kToErrors));
  if (code == 0) return {};
  constexpr const char* kRemedy = "install it there, or let EBBTIDE_PYTHON name a Python that has it";
  if (code == kNoEbbtide) return Fail("{} has no package ebbtide: {}", python, kRemedy);
  if (code == kNoTorch) return Fail("{} has no package torch: {}", python, kRemedy);
  return Fail("{}: expected a Python 3 interpreter, but it ended with code {}", python, code);
}

Status AddPhantom(const std::string& python, const TemporaryFolder& scratch, Environment& environment) {
  EBB_ASSIGN_OR_RETURN(const Phantom phantom, FindPhantom(scratch.path()));
  const int generation = GenerationOf(python);
  if (!phantom.preloads.contains(generation)) {
    return FailAs(ErrorKind::kUnavailable, "this build has no phantom GPU for CUDA {}", generation);
  }
  environment.Prepend("LD_PRELOAD", phantom.preloads.at(generation));
  return {};
}

}  // namespace

std::string InstalledTorch() {
  std::error_code error;
  std::vector<fs::path> folders = {fs::path(FolderOfProgram()) / ".." /
                                   ".."};  // site-packages, of site-packages/ebbtide/bin
  if (const char* named = std::getenv("EBBTIDE_PYTHON"); named != nullptr && *named != '\0') {
    for (const auto& entry : fs::directory_iterator(fs::path(named).parent_path() / ".." / "lib", error)) {
      if (entry.path().filename().string().starts_with("python3")) folders.push_back(entry.path() / "site-packages");
    }
  }
  for (const fs::path& folder : folders) {
    std::ifstream file(folder / "torch" / "version.py");
    for (std::string line; std::getline(file, line);) {
      constexpr std::string_view kBegin = "__version__ = '";
      if (line.starts_with(kBegin)) return line.substr(kBegin.size(), line.find('\'', kBegin.size()) - kBegin.size());
    }
  }
  return "";
}

Result<std::string> FindPython() {
  if (const char* named = std::getenv("EBBTIDE_PYTHON"); named != nullptr && *named != '\0') {
    if (!IsProgram(named)) return Fail("EBBTIDE_PYTHON: expected the path of a Python interpreter, found {}", named);
    return std::string(named);
  }
  if (const std::string beside = FolderOfProgram() + "/python"; IsProgram(beside)) return beside;
  if (const auto found = FindProgram("python3")) return *found;
  return Fail("needs Python with torch: expected EBBTIDE_PYTHON to name one, or python3 on PATH");
}

namespace {

Result<int> RunModule(const std::string& module, const std::vector<std::string>& arguments, model::Device device,
                      ChildOutput output) {
  EBB_ASSIGN_OR_RETURN(const std::string python, FindPython());
  EBB_RETURN_IF_ERROR(CheckPackages(python));
  const std::string program =
      fmt::format("{}{}import runpy\nrunpy.run_module('ebbtide.commands.{}', run_name='__main__', alter_sys=True)",
                  kWithoutCurrentFolder, module == "capture" ? kEndsAtOnce : kEndsQuietly, module);
  std::vector<std::string> words = {python, "-c", program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  EBB_ASSIGN_OR_RETURN(const TemporaryFolder scratch, TemporaryFolder::Make());
  Environment environment = ChildEnvironment();
  if (device == model::Device::kCuda) EBB_RETURN_IF_ERROR(AddPhantom(python, scratch, environment));
  return RunProcess(words, environment, output);
}

}  // namespace

Result<int> RunCaptureCommand(const std::vector<std::string>& arguments, model::Device device, ChildOutput output) {
  return RunModule("capture", arguments, device, output);
}

Result<int> RunPythonCommand(const std::string& module, const std::vector<std::string>& arguments, ChildOutput output) {
  return RunModule(module, arguments, model::Device::kCpu, output);
}

}  // namespace ebbtide::cli
