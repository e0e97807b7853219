// A folder of our own that goes away with its contents.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace ebbtide::cli {

class TemporaryFolder {
 public:
  static Result<TemporaryFolder> Make();
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Removes all that exist now, for a process that ends without its destructors. From any thread; who uses one of them
// must expect it to be gone.
void RemoveTemporaryFolders();

}  // namespace ebbtide::cli
