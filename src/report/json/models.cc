// `ebbtide models` as JSON.
#include "report/json/models.h"

namespace ebbtide::report {

Json ModelsJson(const std::vector<model::BuiltInModel>& models) {
  Json result = NewResult("models");
  result["models"] = Json::array();
  for (const model::BuiltInModel& model : models) {
    result["models"].push_back({{"name", model.name}, {"family", model.family}, {"description", model.description}});
  }
  return result;
}

}  // namespace ebbtide::report
