// The table of what the cache folder holds.
#include "report/text/cache.h"

#include <fmt/format.h>

#include "report/text/table.h"

namespace ebbtide::report {

std::string CacheText(const jobs::CacheResult& cache, const Terminal& terminal) {
  std::string text = cache.folder + "\n";
  if (cache.kinds.empty()) return text + "nothing is kept there\n";
  Table table({{.title = "kept"},
               {.title = "files", .align = Align::kRight},
               {.title = "size", .align = Align::kRight},
               {.title = "what", .shrinks = true}});
  for (const jobs::CachedKind& kind : cache.kinds) {
    const std::string what = kind.is_ours ? kind.what : "of a checkout: --clear by its name alone";
    table.Add({kind.name, fmt::format("{}", kind.files), FormatBytes(kind.bytes), kind.is_cleared ? "removed" : what});
  }
  return text + "\n" + table.Render(terminal);
}

}  // namespace ebbtide::report
