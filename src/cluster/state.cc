// An empty cluster, and what "4x8xa100-40gb" means.
#include "cluster/state.h"

#include <algorithm>
#include <charconv>

namespace ebbtide::cluster {
namespace {

constexpr std::int64_t kMostNodes = 1'000'000;
constexpr std::int64_t kMostGpusOfNode = 64;
// Mixes of jobs that are kept, some hundred bytes each.
constexpr std::size_t kMostMixes = 200'000;

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

double Mix::RateOf(std::size_t kind) const {
  const auto found = std::ranges::lower_bound(kinds, kind);
  return rates[static_cast<std::size_t>(found - kinds.begin())];
}

const Mix& State::MixOn(const Gpu& gpu, std::size_t more) const {
  std::pair<std::size_t, std::vector<std::size_t>> key{gpu.type, {}};
  for (const Slot& slot : gpu.slots) {
    if (!kind(slot.kind).by_share()) key.second.push_back(slot.kind);
  }
  if (more != kNone) key.second.push_back(more);
  std::ranges::sort(key.second);
  const auto known = mixes_->find(key);
  if (known != mixes_->end()) return known->second;
  if (mixes_->size() >= kMostMixes) mixes_->clear();
  std::vector<GpuUser> users;
  for (const std::size_t number : key.second) {
    const OnGpu& here = on(number, gpu);
    users.push_back({.kernels = here.kernels, .gpu_share = here.gpu_share});
  }
  Mix mix{.kinds = key.second, .rates = Rates(users), .busy = 0, .sum = 0};
  mix.busy = BusyShare(users, mix.rates);
  for (const double rate : mix.rates) mix.sum += rate;
  return mixes_->emplace(std::move(key), std::move(mix)).first->second;
}

}  // namespace ebbtide::cluster
