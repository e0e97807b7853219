#include "plan/place.h"

#include <algorithm>
#include <numeric>

#include "sim/simulate.h"

namespace ebbtide::plan {
namespace {

struct Item {
  sim::Index from, to;
  Bytes bytes;
  Bytes address = 0;
};

// The largest first, each at the lowest address that is free throughout its steps.
Bytes Pack(std::vector<Item>& items) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return std::pair(items[i].bytes, items[i].to - items[i].from); });
  std::vector<std::size_t> placed;
  Bytes height = 0;
  std::vector<std::pair<Bytes, Bytes>> taken;
  for (const std::size_t i : order) {
    Item& item = items[i];
    taken.clear();
    for (const std::size_t j : placed) {
      const Item& other = items[j];
      if (other.from < item.to && item.from < other.to) taken.emplace_back(other.address, other.address + other.bytes);
    }
    std::ranges::sort(taken);
    Bytes address = 0;
    for (const auto& [begin, end] : taken) {
      if (begin - address >= item.bytes) break;
      address = std::max(address, end);
    }
    item.address = address;
    height = std::max(height, address + item.bytes);
    placed.push_back(i);
  }
  return height;
}

}  // namespace

Bytes Place(const sim::Workload& workload, sim::Schedule& schedule) {
  std::vector<Item> items;
  for (const sim::Stay& stay : schedule.stays) items.push_back({stay.from, stay.to, workload.bytes[stay.storage]});
  const std::vector<Bytes> workspace = sim::StepWorkspace(workload, schedule);
  for (sim::Index k = 0; k < workspace.size(); ++k) {
    if (workspace[k] > 0) items.push_back({k, k + 1, workspace[k]});
  }
  const Bytes height = Pack(items);
  std::size_t next = 0;
  for (sim::Stay& stay : schedule.stays) stay.address = items[next++].address;
  schedule.workspace_address.assign(schedule.steps.size(), -1);
  for (sim::Index k = 0; k < workspace.size(); ++k) {
    if (workspace[k] > 0) schedule.workspace_address[k] = items[next++].address;
  }
  return height;
}

}  // namespace ebbtide::plan
