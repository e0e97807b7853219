// Makes the folder by mkdtemp, below TMPDIR, and removes it with all that is in it.
#include "cli/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>

namespace ebbtide::cli {

namespace fs = std::filesystem;

namespace {

struct Folders {
  std::mutex mutex;
  std::set<std::string> paths;
};
Folders& Present() {
  static auto* const folders = new Folders;  // outlives all threads
  return *folders;
}

}  // namespace

Result<TemporaryFolder> TemporaryFolder::Make() {
  std::error_code error;
  std::string path = (fs::temp_directory_path(error) / "ebbtide-XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr) {
    return Fail("TMPDIR: expected a folder to write to: {}", error ? error.message() : std::strerror(errno));
  }
  const std::lock_guard lock(Present().mutex);
  Present().paths.insert(path);
  return TemporaryFolder(path);
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  const std::lock_guard lock(Present().mutex);
  Present().paths.erase(path_);
}

void RemoveTemporaryFolders() {
  const std::lock_guard lock(Present().mutex);
  std::error_code ignored;
  for (const std::string& path : Present().paths) fs::remove_all(path, ignored);
}

}  // namespace ebbtide::cli
