// ebbtide models: what is built in.
#include "report/json/models.h"

#include <memory>

#include "cli/output.h"
#include "cli/verb.h"
#include "model/model.h"
#include "report/text/models.h"

namespace ebbtide::cli {

Verb AddModels(CLI::App& program) {
  CLI::App* app = program.add_subcommand("models", "List the built-in models");
  const auto output = std::make_shared<OutputFlags>();
  AddOutputFlags(*app, *output);
  const auto run = [output]() -> Result<int> {
    EBB_RETURN_IF_ERROR(CheckOutput(*output));
    const std::vector<model::BuiltInModel> models = model::BuiltInModels();
    EBB_RETURN_IF_ERROR(Emit(*output, report::ModelsJson(models),
                             [&](const report::Terminal& terminal) { return report::ModelsText(models, terminal); }));
    return kSuccess;
  };
  return {app, run};
}

}  // namespace ebbtide::cli
