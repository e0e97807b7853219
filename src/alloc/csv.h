// Rows of a CSV file by the names of its columns (RFC 4180: quotes, doubled inside). Blank lines and lines that begin
// with '#' are passed over. The first error sticks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace ebbtide::alloc {

class CsvReader {
 public:
  // The text must outlive the reader. Reads the header.
  CsvReader(std::string_view text, std::string path);

  // Where the column stands; nullopt: there is none of that name.
  std::optional<std::size_t> Column(std::string_view name) const;
  // False: no more rows, or an error.
  bool Next();
  std::int64_t line() const { return line_; }

  // Of the present row. A column that is not there, or that the row has not, is empty.
  std::string_view Text(std::optional<std::size_t> column) const;
  // A whole number of at least `least`; an error that names the line otherwise.
  std::int64_t Integer(std::optional<std::size_t> column, std::string_view what, std::int64_t least);

  tl::unexpected<Error> Wrong(const std::string& message) const;
  void Fail(const std::string& message);
  bool ok() const { return !error_; }
  Error error() const { return *error_; }

 private:
  bool ReadRow();

  std::string_view text_;
  std::string path_;
  std::size_t position_ = 0;
  std::int64_t line_ = 0;
  std::int64_t lines_read_ = 0;
  std::vector<std::string> names_;
  std::vector<std::string_view> cells_;
  std::optional<Error> error_;
};

}  // namespace ebbtide::alloc
