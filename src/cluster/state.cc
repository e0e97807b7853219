// An empty cluster, and what "4x8xa100-40gb" means.
#include "cluster/state.h"

#include <algorithm>
#include <charconv>

namespace ebbtide::cluster {
namespace {

constexpr std::int64_t kMostNodes = 1'000'000;
constexpr std::int64_t kMostGpusOfNode = 64;

std::int64_t CountOf(std::string_view text, std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && number >= 1 && number <= most ? number : 0;
}

}  // namespace

std::int64_t Hardware::gpus() const {
  std::int64_t sum = 0;
  for (const Node& node : nodes) sum += node.gpus;
  return sum;
}

Result<std::vector<NodeGroup>> ParseNodes(const std::string& text) {
  std::vector<NodeGroup> out;
  std::int64_t nodes = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view group = std::string_view(text).substr(begin, end - begin);
    const std::size_t first = group.find('x');
    const std::size_t second = first == std::string_view::npos ? first : group.find('x', first + 1);
    NodeGroup parsed;
    if (second != std::string_view::npos) {
      parsed = {.nodes = CountOf(group.substr(0, first), kMostNodes),
                .gpus = static_cast<int>(CountOf(group.substr(first + 1, second - first - 1), kMostGpusOfNode)),
                .gpu = std::string(group.substr(second + 1))};
    }
    if (parsed.nodes == 0 || parsed.gpus == 0 || parsed.gpu.empty()) {
      return Fail("{}: expected NODESxGPUSxNAME, as 4x8xa100-40gb, of at most {} GPUs each", std::string(group),
                  kMostGpusOfNode);
    }
    nodes += parsed.nodes;
    if (nodes > kMostNodes) return Fail("{}: expected at most {} nodes", text, kMostNodes);
    out.push_back(std::move(parsed));
    begin = end + 1;
  }
  return out;
}

State::State(const Hardware& hardware, const Workload& workload) : hardware(hardware), workload(workload) {
  for (const Node& node : hardware.nodes) {
    nodes.push_back(
        {.first = gpus.size(), .gpus = node.gpus, .cpu_free = node.cpu_milli, .memory_free = node.memory_mib});
    for (int i = 0; i < node.gpus; ++i) gpus.push_back({.node = nodes.size() - 1, .type = node.type, .slots = {}});
  }
}

std::vector<GpuUser> UsersOf(const State& state, const Gpu& gpu) {
  std::vector<GpuUser> users;
  for (const Slot& slot : gpu.slots) {
    if (state.kind(slot.kind).by_share()) continue;
    const OnGpu& on = state.on(slot.kind, gpu);
    users.push_back({.kernels = on.kernels, .gpu_share = on.gpu_share});
  }
  return users;
}

}  // namespace ebbtide::cluster
