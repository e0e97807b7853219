#include "sim/lists.h"

namespace ebbtide::sim {

Lists Transpose(const Lists& lists, std::size_t members) {
  std::vector<std::vector<Index>> holders(members);
  for (std::size_t i = 0; i < lists.size(); ++i) {
    for (const Index member : lists[i]) holders[member].push_back(static_cast<Index>(i));
  }
  Lists out;
  out.Reserve(members);
  for (const auto& list : holders) out.Add(list);
  return out;
}

}  // namespace ebbtide::sim
