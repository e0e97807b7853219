// Writes the fields of a packing.
#include "report/json/pack.h"

namespace ebbtide::report {

Json PackJson(const jobs::PackResult& result) {
  Json json = NewResult("pack");
  json["instance"] = result.path;
  json["items"] = result.instance.items.size();
  json["fits"] = result.fits();
  json["height_bytes"] = result.packing.height;
  json["capacity_bytes"] = result.capacity;
  json["lower_bound_bytes"] = result.packing.lower_bound;
  json["evaluations"] = result.packing.evaluations;
  json["stopped_early"] = result.packing.stopped_early;
  Json offsets = Json::array();
  for (std::size_t i = 0; i < result.instance.items.size(); ++i) {
    offsets.push_back({{"id", result.instance.ids[i]}, {"offset", result.packing.offsets[i]}});
  }
  json["offsets"] = std::move(offsets);
  return json;
}

}  // namespace ebbtide::report
