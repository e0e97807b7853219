// The head that all results have, and how they are printed.
#include "report/json.h"

namespace ebbtide::report {

Json NewResult(std::string_view command) {
  Json result = Json::object();
  result["schema_version"] = kSchemaVersion;
  result["command"] = command;
  return result;
}

std::string Print(const Json& result) { return result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace ebbtide::report
