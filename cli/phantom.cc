// Looks for the phantom's libraries beside the program, and asks Pythons which CUDA their torch was built for.
#include "cli/phantom.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include "cli/process.h"
#include "cli/python.h"

namespace ebbtide::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kGenerations[] = {12, 13};
constexpr int kDefaultGeneration = 13;

// Prints the CUDA version of torch, read from its version.py: importing torch would take seconds.
constexpr const char* kProbe =
    "import importlib.util as u, os\n"
    "spec = u.find_spec('torch')\n"
    "names = {}\n"
    "if spec and spec.origin:\n"
    "    exec(open(os.path.join(os.path.dirname(spec.origin), 'version.py')).read(), names)\n"
    "print('cuda', names.get('cuda') or '')\n";

std::optional<int> AskPython(const std::string& python) {
  const auto text = OutputOf({python, "-c", std::string(kWithoutCurrentFolder) + kProbe}, Environment());
  if (!text) return std::nullopt;
  const std::size_t at = text->rfind("cuda ");
  if (at == std::string::npos) return std::nullopt;
  const int major = std::atoi(text->c_str() + at + 5);
  return std::find(std::begin(kGenerations), std::end(kGenerations), major) != std::end(kGenerations)
             ? std::optional(major)
             : std::nullopt;
}

bool IsPython(const std::string& path) { return fs::path(path).filename().string().starts_with("python"); }

// "#!/usr/bin/env python3", "#!/venv/bin/python": the interpreter, where it is a Python.
std::optional<std::string> PythonOfScript(const std::string& path) {
  std::ifstream file(path);
  char magic[2] = {};
  if (!file.read(magic, 2) || magic[0] != '#' || magic[1] != '!') return std::nullopt;
  std::string line(256, '\0');
  file.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<std::size_t>(file.gcount()));
  std::istringstream words(line.substr(0, line.find('\n')));
  for (std::string word; words >> word;) {
    if (IsPython(word)) return FindProgram(word);
  }
  return std::nullopt;
}

// LD_PRELOAD has no way to write these.
bool FitsLdPreload(const std::string& path) { return path.find_first_of(": ") == std::string::npos; }

// All libraries of a generation; the core first, since it also stands in front of libc's _exit.
std::string PreloadOf(const fs::path& libraries, int generation) {
  std::map<std::string, std::string> by_name;
  std::error_code error;
  for (const char* place : {"common", generation == 12 ? "cu12" : "cu13"}) {
    for (const auto& entry : fs::directory_iterator(libraries / place, error)) {
      const std::string name = entry.path().filename().string();
      if (name.find(".so") != std::string::npos && entry.exists(error)) by_name[name] = entry.path().string();
    }
  }
  if (by_name.empty()) return "";
  std::string list = (libraries / "libebbtide_phantom.so").string();
  for (const auto& [name, path] : by_name) list += ":" + path;
  return list;
}

Result<std::string> FolderOf(const char* what, const std::vector<fs::path>& candidates, const char* remedy) {
  std::error_code error;
  for (const fs::path& candidate : candidates) {
    if (fs::is_directory(candidate, error)) return candidate.string();
  }
  return FailAs(ErrorKind::kUnavailable, "this build has no {} ({}): {}", what, candidates.front().string(), remedy);
}

}  // namespace

Result<Phantom> FindPhantom(const std::string& scratch) {
  const fs::path program = FolderOfProgram();
  EBB_ASSIGN_OR_RETURN(std::string libraries, FolderOf("phantom GPU", {program / "phantom", program / ".." / "phantom"},
                                                       "it is built where the Python environment has CUDA's headers"));
  Phantom phantom;
  EBB_ASSIGN_OR_RETURN(
      phantom.site,
      FolderOf("Python package", {program / "python-path" / "ebbtide" / "dryrun_site", program / ".." / "dryrun_site"},
               "install it, or build with Python"));
  if (!FitsLdPreload(libraries)) {
    const fs::path link = fs::path(scratch) / "phantom";
    std::error_code error;
    fs::create_directory_symlink(fs::canonical(libraries, error), link, error);
    if (error || !FitsLdPreload(link.string())) {
      return Fail("TMPDIR: expected a folder to write to, without ':' and blanks in its path, found {}", scratch);
    }
    libraries = link.string();
  }
  phantom.libraries = libraries;
  for (const int generation : kGenerations) {
    const std::string list = PreloadOf(libraries, generation);
    if (!list.empty()) phantom.preloads[generation] = list;
  }
  return phantom;
}

int GenerationOf(const std::string& program) {
  std::vector<std::string> pythons;
  if (IsPython(program)) {
    pythons.push_back(program);
  } else if (const auto python = PythonOfScript(program)) {
    pythons.push_back(*python);
  } else {
    for (const char* name : {"python", "python3"}) {
      if (const auto found = FindProgram(name)) pythons.push_back(*found);
    }
  }
  for (const std::string& python : pythons) {
    if (const auto generation = AskPython(python)) return *generation;
  }
  return kDefaultGeneration;
}

}  // namespace ebbtide::cli
