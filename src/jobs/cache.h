// What Ebbtide keeps from run to run, in one folder: the question of `ebbtide cache`, and its answer.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace ebbtide::jobs {

struct CacheRequest {
  std::vector<std::string> clear = {};  // kinds to remove, or "all" for every kind that is made anew by itself
};

// A folder of the cache with the files beside it that bear its name, or another file there.
struct CachedKind {
  std::string name;     // "plans"; of the checkouts' environments and the like: that of their folder
  std::string what;     // what it holds, for people; empty: not known
  bool is_ours = true;  // `clear` with "all" removes it: Ebbtide makes it anew when it is needed
  std::int64_t files = 0;
  Bytes bytes = 0;
  bool is_cleared = false;  // removed by this request; files and bytes are what it held
};

struct CacheResult {
  std::string folder;
  std::vector<CachedKind> kinds;  // by name; those that are not there are left out
};

// EBBTIDE_CACHE; else ebbtide/ in XDG_CACHE_HOME where that is an absolute path, else in ~/.cache. As cache_folder of
// python/ebbtide/files.py. Empty where the user has no home.
std::string CacheFolder();

// What `clear` may name on every machine.
std::vector<std::string> ClearableKinds();

// Fails where `clear` names what is not there to be cleared, and where a folder cannot be removed. That nothing is kept
// yet is no error. Follows no links.
Result<CacheResult> Cache(const CacheRequest& request);

}  // namespace ebbtide::jobs
