// Gives every storage its path of module numbers and sorts by it.
#include "estimate/model_order.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

namespace ebbtide::estimate {
namespace {

// A place in the order: the numbers of the modules on the way down, then one above all of them, by kind, then the
// storage's own.
struct Entry {
  std::vector<std::int64_t> place;
  StorageId storage;
};

}  // namespace

std::vector<StorageId> ModelOrder(const TrainingGraph& graph) {
  constexpr std::int64_t kOwn = std::numeric_limits<std::int64_t>::max() - 1;
  std::map<std::pair<std::int64_t, std::string_view>, std::int64_t> modules;  // by parent and name
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < graph.storages.size(); ++i) {
    const Storage& storage = graph.storages[i];
    if (storage.kind != StorageKind::kParameter && storage.kind != StorageKind::kBuffer) continue;
    Entry entry{{}, StorageId(i)};
    std::string_view rest = storage.name;
    std::int64_t module = 0;
    for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      const std::int64_t next = static_cast<std::int64_t>(modules.size()) + 1;
      module = modules.emplace(std::pair(module, rest.substr(0, dot)), next).first->second;
      entry.place.push_back(module);
      rest.remove_prefix(dot + 1);
    }
    entry.place.push_back(kOwn + (storage.kind == StorageKind::kBuffer ? 1 : 0));
    entry.place.push_back(static_cast<std::int64_t>(i));
    entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, {}, &Entry::place);
  std::vector<StorageId> order;
  order.reserve(entries.size());
  for (const Entry& entry : entries) order.push_back(entry.storage);
  return order;
}

}  // namespace ebbtide::estimate
