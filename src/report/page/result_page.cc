// Checks the object and fills the page that any result is shown by.
#include "report/page/result_page.h"

#include "report/page/page.h"
#include "report/page/texts.h"

namespace ebbtide::report {

Result<std::string> ResultPage(const Json& result) {
  if (!result.is_object()) return Fail("expected an object, as a verb prints it with --json");
  if (!result.contains("command") || !result["command"].is_string())
    return Fail("expected \"command\", the verb that printed it");
  if (!result.contains("schema_version") || result["schema_version"] != 1) return Fail("expected \"schema_version\" 1");
  const std::string command = result["command"];
  const std::string model = result.contains("model") && result["model"].is_string() ? result["model"] : Json(command);
  return FillPage({.body = kResultHtml,
                   .css = std::string(kPageCss) + kResultCss,
                   .js = std::string(kWordsJs) + kResultJs,
                   .title = model + " · " + command,
                   .data = result});
}

}  // namespace ebbtide::report
