// Takes columns from the widest cell that may shrink until the table fits.
#include "report/text/table.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

#include "report/text/text.h"

namespace ebbtide::report {
namespace {

constexpr int kGap = 2;        // columns between two cells
constexpr int kNarrowest = 8;  // no cell is shortened below this

}  // namespace

void Table::Add(std::vector<std::string> cells) {
  assert(cells.size() == columns_.size());
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

std::vector<int> Table::Widths(int available) const {
  std::vector<int> widths;
  int total = kGap * (static_cast<int>(columns_.size()) - 1);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    int width = report::Columns(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, report::Columns(row[c]));
    widths.push_back(width);
    total += width;
  }
  while (total > available) {
    std::size_t widest = columns_.size();
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (columns_[c].shrinks && widths[c] > kNarrowest && (widest == columns_.size() || widths[c] > widths[widest])) {
        widest = c;
      }
    }
    if (widest == columns_.size()) break;
    --widths[widest];
    --total;
  }
  return widths;
}

std::string Table::Render(const Terminal& terminal, int indent) const {
  const std::vector<int> widths = Widths(terminal.width - indent);
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out(static_cast<std::size_t>(indent), ' ');
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (c > 0) out.append(kGap, ' ');
      const std::string cell = Shorten(cells[c], widths[c], terminal.unicode);
      out += columns_[c].align == Align::kRight ? PadLeft(cell, widths[c]) : PadRight(cell, widths[c]);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  };

  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  std::string out;
  if (std::any_of(titles.begin(), titles.end(), [](const std::string& title) { return !title.empty(); })) {
    out += Paint(Style::kBold, line(titles), terminal) + '\n';
  }
  for (const auto& row : rows_) out += line(row) + '\n';
  return out;
}

}  // namespace ebbtide::report
