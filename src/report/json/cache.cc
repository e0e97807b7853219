// `ebbtide cache` as JSON.
#include "report/json/cache.h"

namespace ebbtide::report {

Json CacheJson(const jobs::CacheResult& cache) {
  Json result = NewResult("cache");
  result["folder"] = cache.folder;
  Bytes bytes = 0;
  Json kinds = Json::array();
  for (const jobs::CachedKind& kind : cache.kinds) {
    if (!kind.is_cleared) bytes += kind.bytes;
    kinds.push_back({{"name", kind.name},
                     {"what", kind.what},
                     {"files", kind.files},
                     {"bytes", kind.bytes},
                     {"cleared", kind.is_cleared}});
  }
  result["bytes"] = bytes;
  result["kinds"] = std::move(kinds);
  return result;
}

}  // namespace ebbtide::report
