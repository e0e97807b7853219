// Looks through the cache folder, and removes from it.
#include "jobs/cache.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <system_error>

#include "base/nearest.h"

namespace ebbtide::jobs {
namespace {

namespace fs = std::filesystem;

struct Known {
  const char* name;
  const char* what;
};
// What the package makes for itself.
constexpr std::array<Known, 5> kKnown = {{{"fused", "steps in Inductor's kernels, by graph"},
                                          {"observer", "the phantom's observer, compiled for a version of torch"},
                                          {"op-times", "measured times of ops, by machine"},
                                          {"plans", "plans of steps, by graph and budget"},
                                          {"torch", "the engine's library, compiled for a version of torch"}}};
constexpr const char* kAll = "all";

// Adds files and bytes of the path, or below it, without following links.
void Measure(const fs::path& folder, CachedKind& kind) {
  std::error_code error;
  if (fs::is_regular_file(folder, error)) {
    ++kind.files;
    kind.bytes += static_cast<Bytes>(fs::file_size(folder, error));
    return;
  }
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_regular_file(ignored) || entry->is_symlink(ignored)) continue;
    ++kind.files;
    const std::uintmax_t size = entry->file_size(ignored);
    if (!ignored) kind.bytes += static_cast<Bytes>(size);
  }
}

// env-1 of env-1.lock and env-1.log where that folder is there: what was written beside a folder goes with it.
std::string KindOf(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  std::error_code ignored;
  if (entry.is_directory(ignored)) return name;
  const fs::path owner = entry.path().parent_path() / entry.path().stem();
  return fs::is_directory(owner, ignored) && !fs::is_symlink(owner, ignored) ? owner.filename().string() : name;
}

const Known* FindKnown(const std::string& name) {
  const auto found = std::ranges::find(kKnown, name, [](const Known& known) { return std::string(known.name); });
  return found == kKnown.end() ? nullptr : &*found;
}

}  // namespace

std::string CacheFolder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::error_code error;
  if (const std::string own = variable("EBBTIDE_CACHE"); !own.empty()) return fs::absolute(own, error).string();
  if (const std::string named = variable("XDG_CACHE_HOME"); named.starts_with('/')) return named + "/ebbtide";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/ebbtide";
}

std::vector<std::string> ClearableKinds() {
  std::vector<std::string> names = {kAll};
  for (const Known& known : kKnown) names.push_back(known.name);
  return names;
}

Result<CacheResult> Cache(const CacheRequest& request) {
  CacheResult result{.folder = CacheFolder(), .kinds = {}};
  if (result.folder.empty()) return Fail("no cache folder: expected EBBTIDE_CACHE, XDG_CACHE_HOME or HOME to be set");
  std::error_code error;
  std::map<std::string, std::vector<fs::path>> paths;  // by kind
  for (fs::directory_iterator entry(result.folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_symlink(ignored)) paths[KindOf(*entry)].push_back(entry->path());
  }
  for (const auto& [name, places] : paths) {
    const Known* known = FindKnown(name);
    CachedKind kind{.name = name, .what = known != nullptr ? known->what : "", .is_ours = known != nullptr};
    for (const fs::path& place : places) Measure(place, kind);
    result.kinds.push_back(kind);
  }

  std::vector<std::string> names = ClearableKinds();
  for (const CachedKind& kind : result.kinds) {
    if (!kind.is_ours) names.push_back(kind.name);
  }
  for (const std::string& name : request.clear) {
    if (std::ranges::find(names, name) == names.end()) {
      return Fail("--clear: expected {}, found {}{}", JoinWithOr(names), name, DidYouMean(name, names));
    }
  }
  for (CachedKind& kind : result.kinds) {
    const bool asked = std::ranges::any_of(
        request.clear, [&](const std::string& name) { return name == kind.name || (name == kAll && kind.is_ours); });
    if (!asked) continue;
    for (const fs::path& place : paths[kind.name]) {
      fs::remove_all(place, error);
      if (error) return Fail("{}: {}", place.string(), error.message());
    }
    kind.is_cleared = true;
  }
  return result;
}

}  // namespace ebbtide::jobs
