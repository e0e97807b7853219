// Whole files in and out, plain or gzip. Input is untrusted: what is held in memory is bounded before it is read.
// Output appears under its name complete or not at all.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace ebbtide {

// A descriptor, which the caller closes, of a file that can be read to its end: a regular one, or a shell's pipe,
// `<(command)`. Folders, devices, sockets and pipes with a name are refused without waiting for anybody.
Result<int> OpenToRead(const std::string& path);

// The content of a file; one that begins with gzip's magic bytes is decompressed, whatever its name. More than `limit`
// bytes, compressed or not, are an error, as is a gzip that expands too far (gzip.h). Errors begin with the path.
Result<std::string> ReadFile(const std::string& path, Bytes limit);

// Writes the content under a temporary name in the same folder, then gives it its name. Compressed where the path
// ends in .gz.
Status WriteFile(const std::string& path, std::string_view content);

// WriteFile piece by piece, for content too large to hold. Destroyed without Commit, it leaves nothing behind. What
// is no regular file (a pipe, /dev/stdout) is written to directly.
class FileWriter {
 public:
  static Result<FileWriter> Create(const std::string& path);
  FileWriter(FileWriter&&) noexcept;
  FileWriter& operator=(FileWriter&&) noexcept;
  ~FileWriter();

  Status Append(std::string_view piece);
  Status Commit();  // at most once, and nothing after it

 private:
  struct Output;
  explicit FileWriter(std::unique_ptr<Output> output);
  std::unique_ptr<Output> output_;
};

}  // namespace ebbtide
