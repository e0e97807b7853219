// Checks the object and fills the page that any result is shown by.
#include "report/page/result_page.h"

#include "report/about.h"
#include "report/page/page.h"
#include "report/page/texts.h"

namespace ebbtide::report {

namespace {

// Of a file of ours what can be shown: its numbers and texts, and of each list how long it is.
Json WithoutLists(const Json& file) {
  Json out = Json::object();
  Json lengths = Json::object();
  for (const auto& [name, value] : file.items()) {
    if (value.is_array()) {
      lengths[name] = value.size();
    } else {
      out[name] = value;
    }
  }
  if (!lengths.empty()) out["entries"] = lengths;
  return out;
}

}  // namespace

Result<std::string> ResultPage(const Json& result) {
  if (!result.is_object()) return Fail("expected an object, as a verb prints it with --json");
  const bool is_file = result.contains("format") && result["format"].is_string() &&
                       std::string(result["format"]).starts_with("ebbtide.");
  if (!is_file) {
    if (!result.contains("command") || !result["command"].is_string())
      return Fail("expected \"command\", the verb that printed it");
    if (!result.contains("schema_version") || result["schema_version"] != 1)
      return Fail("expected \"schema_version\" 1");
  }
  const std::string command = result[is_file ? "format" : "command"];
  const std::string model = result.contains("model") && result["model"].is_string() ? result["model"] : Json(command);
  Json data = is_file ? WithoutLists(result) : result;
  data["about"] = AboutJson(AboutResult(result));
  return FillPage({.body = kResultHtml,
                   .css = std::string(kPageCss) + kResultCss,
                   .js = std::string(kWordsJs) + kReachJs + kResultJs,
                   .title = model + " · " + command,
                   .data = std::move(data)});
}

}  // namespace ebbtide::report
