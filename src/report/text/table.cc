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
constexpr int kNarrowestWords = 20;

int TotalOf(const std::vector<int>& widths) {
  int total = kGap * (static_cast<int>(widths.size()) - 1);
  for (const int width : widths) total += width;
  return total;
}

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
      const int least = columns_[c].shrinks ? kNarrowest : columns_[c].wraps ? kNarrowestWords : widths[c];
      if (widths[c] > least && (widest == columns_.size() || widths[c] > widths[widest])) {
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
  if (columns_.size() > 1 && TotalOf(widths) > terminal.width - indent) return RenderParagraphs(terminal, indent);
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out(static_cast<std::size_t>(indent), ' ');
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (c > 0) out.append(kGap, ' ');
      const std::string cell = columns_[c].wraps ? cells[c] : Shorten(cells[c], widths[c], terminal.unicode);
      out += columns_[c].align == Align::kRight ? PadLeft(cell, widths[c]) : PadRight(cell, widths[c]);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  };
  // A row as several lines where words go on.
  const auto lines = [&](const std::vector<std::string>& row) {
    std::vector<std::vector<std::string>> parts(row.size());
    std::size_t most = 1;
    for (std::size_t c = 0; c < row.size(); ++c) {
      parts[c] = columns_[c].wraps ? Wrap(row[c], widths[c]) : std::vector{row[c]};
      most = std::max(most, parts[c].size());
    }
    std::string out;
    for (std::size_t i = 0; i < most; ++i) {
      std::vector<std::string> cells;
      for (const auto& part : parts) cells.push_back(i < part.size() ? part[i] : "");
      out += line(cells) + '\n';
    }
    return out;
  };

  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  std::string out;
  if (std::any_of(titles.begin(), titles.end(), [](const std::string& title) { return !title.empty(); })) {
    out += Paint(Style::kBold, line(titles), terminal) + '\n';
  }
  for (const auto& row : rows_) out += lines(row);
  return out;
}

std::string Table::RenderParagraphs(const Terminal& terminal, int indent) const {
  std::string out;
  const auto add = [&](const std::string& text, int by) {
    for (const std::string& line : WrapNames(text, terminal.width - by, terminal.unicode)) {
      out += std::string(static_cast<std::size_t>(by), ' ') + line + '\n';
    }
  };
  if (!columns_.front().title.empty()) out += Paint(Style::kBold, columns_.front().title, terminal) + '\n';
  for (const auto& row : rows_) {
    const int width = terminal.width - indent;
    add(columns_.front().shrinks ? Shorten(row.front(), width, terminal.unicode) : row.front(), indent);
    std::string rest;
    for (std::size_t c = 1; c < row.size(); ++c) {
      if (row[c].empty()) continue;
      const std::string cell = columns_[c].shrinks ? Shorten(row[c], width - kGap, terminal.unicode) : row[c];
      rest += (rest.empty() ? "" : ", ") + columns_[c].title + (columns_[c].title.empty() ? "" : " ") + cell;
    }
    if (!rest.empty()) add(rest, indent + kGap);
  }
  return out;
}

}  // namespace ebbtide::report
