// Rows of a CSV file by the names of its columns (RFC 4180; a doubled quote inside of quotes stays doubled). Blank
// lines and lines that begin with '#' are passed over. The first error sticks: after it there are no more rows.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace ebbtide {

class CsvReader {
 public:
  // The text must outlive the reader. Reads the header.
  CsvReader(std::string_view text, std::string path);

  // The place of the column in every row; nullopt where the header has none of that name.
  std::optional<std::size_t> Column(std::string_view name) const;
  // Goes to the next row. False where there is none, or after an error: `ok` tells which.
  bool Next();
  std::int64_t line() const { return line_; }

  // The cell of the present row. It is empty where there is no such column, or the row is too short.
  std::string_view Text(std::optional<std::size_t> column) const;
  // The same as a whole number. Anything else, and what is below `least`, is an error that names the line and `what`.
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

}  // namespace ebbtide
