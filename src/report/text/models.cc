// The list of built-in models.
#include "report/text/models.h"

#include <algorithm>

#include "report/text/text.h"

namespace ebbtide::report {

std::string ModelsText(const std::vector<model::BuiltInModel>& models, const Terminal& terminal) {
  int widest = 0;  // names line up across families
  std::vector<std::string> families;
  for (const model::BuiltInModel& model : models) {
    widest = std::max(widest, Columns(model.name));
    if (std::find(families.begin(), families.end(), model.family) == families.end()) families.push_back(model.family);
  }
  std::string out;
  for (const std::string& family : families) {
    if (!out.empty()) out += '\n';
    out += Paint(Style::kBold, family, terminal) + '\n';
    for (const model::BuiltInModel& model : models) {
      if (model.family != family) continue;
      std::string left = "  " + PadRight(model.name, widest + 2);
      for (const std::string& line : Wrap(model.description, terminal.width - widest - 4)) {
        out += left + line + '\n';
        left = std::string(static_cast<std::size_t>(widest + 4), ' ');
      }
    }
  }
  return out;
}

}  // namespace ebbtide::report
