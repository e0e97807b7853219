// Cuts the text into rows and cells as they are asked for; cells refer to the text.
#include "base/csv.h"

#include <algorithm>
#include <charconv>

#include "base/json_text.h"

namespace ebbtide {

CsvReader::CsvReader(std::string_view text, std::string path) : text_(text), path_(std::move(path)) {
  if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  if (ReadRow()) names_.assign(cells_.begin(), cells_.end());
}

std::optional<std::size_t> CsvReader::Column(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names_.begin());
}

bool CsvReader::Next() { return ok() && ReadRow(); }

std::string_view CsvReader::Text(std::optional<std::size_t> column) const {
  return column && *column < cells_.size() ? cells_[*column] : std::string_view();
}

std::int64_t CsvReader::Integer(std::optional<std::size_t> column, std::string_view what, std::int64_t least) {
  const std::string_view text = Text(column);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || number < least) {
    Fail(fmt::format("expected {}, found {}", what, text.empty() ? "nothing" : Quoted(text)));
    return least;
  }
  return number;
}

tl::unexpected<Error> CsvReader::Wrong(const std::string& message) const {
  return tl::unexpected<Error>(Error{fmt::format("{}: line {}: {}", path_, line_, message)});
}

void CsvReader::Fail(const std::string& message) {
  if (!error_) error_ = Wrong(message).value();
}

// Cells in quotes keep what is between them as it is written: nobody here reads text with quotes inside.
bool CsvReader::ReadRow() {
  while (position_ < text_.size()) {
    line_ = ++lines_read_;
    cells_.clear();
    std::size_t begin = position_;
    bool quoted = false;
    std::size_t i = position_;
    const auto cell = [&](std::size_t end) {
      std::string_view text = text_.substr(begin, end - begin);
      while (!text.empty() && (text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
      while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
      if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
      cells_.push_back(text);
      begin = end + 1;
    };
    for (; i < text_.size() && (quoted || text_[i] != '\n'); ++i) {
      if (text_[i] == '"') quoted = !quoted;
      if (text_[i] == '\n') ++lines_read_;
      if (text_[i] == ',' && !quoted) cell(i);
    }
    if (quoted) {
      Fail("expected a quote that ends the text begun in this line");
      return false;
    }
    const std::size_t row_begin = position_;
    cell(i);
    position_ = i + 1;
    const bool blank = cells_.size() == 1 && cells_[0].empty();
    if (!blank && text_[row_begin] != '#') return true;
  }
  cells_.clear();
  return false;
}

}  // namespace ebbtide
