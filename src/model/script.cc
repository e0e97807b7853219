// Finds definitions at the beginning of lines, outside of texts in triple quotes.
#include "model/script.h"

#include <algorithm>

#include "base/file.h"
#include "base/nearest.h"
#include "base/units.h"

namespace ebbtide::model {
namespace {

constexpr Bytes kLargestScript = 16 * kMiB;
constexpr std::size_t kListed = 8;

bool IsNamePart(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0;
}

// Where the text in triple quotes that `line` leaves open ends: the quotes, or nothing. `open`: those that the lines
// before have left open.
std::string_view OpenQuotes(std::string_view line, std::string_view open) {
  for (std::size_t at = 0; at < line.size();) {
    if (!open.empty()) {
      const std::size_t end = line.find(open, at);
      if (end == std::string_view::npos) return open;
      at = end + open.size();
      open = {};
      continue;
    }
    if (line[at] == '#') return {};
    if (line[at] != '"' && line[at] != '\'') {
      ++at;
      continue;
    }
    const std::string_view quotes = line[at] == '"' ? "\"\"\"" : "'''";
    if (line.substr(at, 3) == quotes) {
      open = quotes;
      at += 3;
      continue;
    }
    const char quote = line[at++];  // a short text ends on its line
    while (at < line.size() && line[at] != quote) at += line[at] == '\\' ? 2 : 1;
    ++at;
  }
  return open;
}

// "def step(batch_size=32):" defines step, which needs no argument. An empty name: no definition.
struct Definition {
  std::string name;
  bool needs_arguments = false;
};
Definition DefinitionOf(std::string_view line) {
  constexpr std::string_view kDef = "def ";
  if (!line.starts_with(kDef)) return {};
  line.remove_prefix(kDef.size());
  const auto end = std::ranges::find_if_not(line, IsNamePart);
  const std::string name(line.begin(), end);
  line.remove_prefix(name.size());
  if (name.empty() || !line.starts_with('(')) return {};
  line.remove_prefix(1);
  const std::string_view first = line.substr(0, line.find_first_of(",)"));
  const bool none = first.find_first_not_of(' ') == std::string_view::npos || first.starts_with('*');
  return {name, !none && first.find('=') == std::string_view::npos};
}

}  // namespace

std::vector<std::string> FunctionsOf(std::string_view source) {
  std::vector<std::string> ready, others;
  std::string_view open;
  while (!source.empty()) {
    const std::size_t end = std::min(source.find('\n'), source.size());
    const std::string_view line = source.substr(0, end);
    if (open.empty()) {
      if (Definition found = DefinitionOf(line); !found.name.empty()) {
        (found.needs_arguments ? others : ready).push_back(std::move(found.name));
      }
    }
    open = OpenQuotes(line, open);
    source.remove_prefix(std::min(end + 1, source.size()));
  }
  ready.insert(ready.end(), others.begin(), others.end());
  return ready;
}

Status CheckFunctionNamed(const std::string& model) {
  const bool colon = model.ends_with(".py:");
  if (!colon && !model.ends_with(".py")) return {};
  const std::string path = colon ? model.substr(0, model.size() - 1) : model;
  EBB_ASSIGN_OR_RETURN(const std::string source, ReadFile(path, kLargestScript));
  std::vector<std::string> functions = FunctionsOf(source);
  if (functions.empty()) {
    return Fail("{}: expected {}:FUNCTION, one that returns (model, loss_fn, optimizer, batch); it has no functions",
                model, path);
  }
  const std::size_t more = functions.size() - std::min(kListed, functions.size());
  functions.resize(functions.size() - more);
  for (std::string& function : functions) function = path + ":" + function;
  return Fail("{}: expected a function of it, one that returns (model, loss_fn, optimizer, batch): {}{}", model,
              JoinWithOr(functions), more > 0 ? fmt::format(" (and {} more)", more) : "");
}

}  // namespace ebbtide::model
