// Puts the parts in the place of the frame's marks, escaped for where they stand.
#include "report/page/page.h"

#include <string_view>

#include "report/page/texts.h"

namespace ebbtide::report {
namespace {

// As in frame.html.
const std::string kProvenanceBegin = R"(<script id="provenance" type="application/json">)";
const std::string kScriptEnd = "</script>";
const std::string kNoProvenance = kProvenanceBegin + "{}" + kScriptEnd;

void ReplaceAll(std::string& text, std::string_view mark, std::string_view with) {
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + with.size())) {
    text.replace(at, mark.size(), with);
  }
}

void ReplaceOnce(std::string& text, std::string_view mark, std::string_view with) {
  if (const std::size_t at = text.find(mark); at != std::string::npos) text.replace(at, mark.size(), with);
}

// JSON inside a script element must not hold what ends one.
std::string EscapeScript(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string FillPage(const PageParts& parts) {
  const std::string json = parts.data.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string page = kFrameHtml;
  ReplaceOnce(page, "@body@", parts.body);
  ReplaceOnce(page, "@remark@", parts.remark);
  ReplaceOnce(page, "@css@", parts.css);
  ReplaceOnce(page, "@js@", parts.js);
  ReplaceOnce(page, "@data@", EscapeScript(json));  // may hold any text, but stands behind the title's mark
  ReplaceOnce(page, "@title@", EscapeHtml(parts.title));
  return page;
}

std::string WithProvenance(std::string page, const Provenance& provenance) {
  const Json facts = {{"command", provenance.command}, {"version", provenance.version}, {"date", provenance.date}};
  const std::string script =
      kProvenanceBegin + EscapeScript(facts.dump(-1, ' ', false, Json::error_handler_t::replace)) + kScriptEnd;
  ReplaceOnce(page, kNoProvenance, script);
  ReplaceAll(page, EscapeHtml(kNoProvenance), EscapeHtml(script));
  return page;
}

}  // namespace ebbtide::report
