// HTML pages that need nothing beside them: the frame and a body of src/report/page, style, script and data in one
// text.
#pragma once

#include <string>
#include <string_view>

#include "report/json.h"

namespace ebbtide::report {

// What stands in for the marks of frame.html. The title and the data may hold any text.
struct PageParts {
  std::string body, css, js;
  std::string remark = "Bytes are exact";  // at the foot
  std::string title;
  Json data;
};
// The page as one text.
std::string FillPage(const PageParts& parts);

// Text as it stands in HTML, between quotes too.
std::string EscapeHtml(std::string_view text);

// Where and when a page was made. The same input gives the same page, so a page has none of this by itself.
struct Provenance {
  std::string command;  // as it was typed
  std::string version;  // of Ebbtide
  std::string date;     // "2026-11-18"
};
// A page of ours with that in its head; one of several pages, with that in the head of each.
std::string WithProvenance(std::string page, const Provenance& provenance);

}  // namespace ebbtide::report
