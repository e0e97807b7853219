// Makes the folder by mkdtemp, below TMPDIR, and removes it with all that is in it.
#include "cli/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace ebbtide::cli {

namespace fs = std::filesystem;

Result<TemporaryFolder> TemporaryFolder::Make() {
  std::error_code error;
  std::string path = (fs::temp_directory_path(error) / "ebbtide-XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr) {
    return Fail("TMPDIR: expected a folder to write to: {}", error ? error.message() : std::strerror(errno));
  }
  return TemporaryFolder(path);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace ebbtide::cli
