// Whole files in and out, plain or gzip. Input is untrusted: what is held in memory is bounded before it is read.
// Output appears under its name complete or not at all.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace ebbtide {

// A gzip file may claim any size, a thousandfold of its own. At every point of the stream the text so far may be
// no longer than kGzipSlack + kGzipRatio times the compressed bytes it came from. Graphs as JSON compress 15 to 40
// times as a whole; the slack covers stretches of equal lines.
inline constexpr Bytes kGzipSlack = 64 * kMiB;
inline constexpr Bytes kGzipRatio = 100;

// The content of a file; a file that begins with gzip's magic bytes is decompressed, whatever its name. Content of
// more than `limit` bytes is an error, found without holding more than that.
Result<std::string> ReadFile(const std::string& path, Bytes limit);

// The content of a gzip stream that is already in memory; `name` stands in front of errors.
Result<std::string> Gunzip(std::string_view compressed, const std::string& name, Bytes limit);

// Writes a file piece by piece, under a temporary name in the same folder; Commit gives it its name. Destroyed
// without Commit, it leaves nothing behind. A name that ends in .gz is compressed, equal content to equal bytes.
// What is not a regular file (a pipe, /dev/stdout) is written to directly.
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

Status WriteFile(const std::string& path, std::string_view content);

}  // namespace ebbtide
