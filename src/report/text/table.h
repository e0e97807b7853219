// Tables for terminals: columns as wide as their widest cell; those that may shrink do so until the table fits.
#pragma once

#include <string>
#include <vector>

#include "report/text/terminal.h"

namespace ebbtide::report {

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
  bool shrinks = false;  // its cells are names, of which a part may be left out to fit the terminal
  bool wraps = false;    // its cells are words and numbers, which may go on in the next line
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as there are columns. Cells are made printable here.
  void Add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // Lines that each end in '\n', the titles first unless all are empty; `indent` spaces in front of each. No number is
  // ever cut: where a table is too wide for the terminal although all names are short, each row becomes a paragraph,
  // its first cell and then the others with their titles.
  std::string Render(const Terminal& terminal, int indent = 0) const;

 private:
  std::vector<int> Widths(int available) const;
  std::string RenderParagraphs(const Terminal& terminal, int indent) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ebbtide::report
