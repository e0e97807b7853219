// HTML pages that need nothing beside them: a template of src/report/page, its style, its script and its data in one
// text.
#pragma once

#include <string>

#include "report/json.h"

namespace ebbtide::report {

// What stands in for the marks @css@, @js@, @data@ and @title@ of a template. The title and the data may hold any text.
struct PageParts {
  std::string html, css, js;
  std::string title;
  Json data;
};
std::string FillPage(const PageParts& parts);

}  // namespace ebbtide::report
