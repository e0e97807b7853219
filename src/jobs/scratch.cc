// Reads the scratch memory of each op off the timeline of an estimate.
#include "jobs/scratch.h"

#include <algorithm>
#include <map>

#include "estimate/estimate.h"
#include "estimate/not_counted.h"

namespace ebbtide::jobs {
namespace {

constexpr Bytes kBlock = 512;  // to which PyTorch rounds requests

// What one op asked for.
struct Asked {
  std::map<std::int64_t, Bytes> change;  // by event
  Bytes results = 0;
};

Bytes PeakBeyondResults(const Asked& asked) {
  Bytes held = 0, most = 0;
  for (const auto& [event, change] : asked.change) {
    held += change;
    most = std::max(most, held);
  }
  return std::max<Bytes>(most - asked.results, 0);
}

}  // namespace

std::vector<std::size_t> WithoutScratchRule(const TrainingGraph& graph) {
  std::vector<std::size_t> numbers;
  for (const OpId id : estimate::WithoutScratchRule(graph)) numbers.push_back(id.index());
  return numbers;
}

std::vector<std::optional<Bytes>> ScratchByOp(const TrainingGraph& graph, const DeviceProfile& gpu) {
  estimate::Options options;
  options.gpu = gpu;
  options.training.iterations = 1;
  options.keep_timeline = true;
  std::vector<Asked> asked(graph.ops.size());
  for (const estimate::TimedRequest& timed : estimate::EstimateTraining(graph, options).timeline.requests) {
    if (!timed.request.op.valid()) continue;
    Asked& by = asked[timed.request.op.index()];
    const Bytes bytes = RoundUp(timed.request.bytes, kBlock);
    by.change[timed.begin] += bytes;
    if (timed.request.category == estimate::Category::kWorkspace) {
      by.change[timed.end] -= bytes;
    } else {
      by.results += bytes;
    }
  }
  const std::set<std::string> measured = estimate::MeasuredKinds(graph);
  std::vector<std::optional<Bytes>> out;
  for (const Asked& by : asked) out.push_back(PeakBeyondResults(by));
  for (const OpId id : estimate::WithoutScratchRule(graph)) {
    const Op& op = graph.op(id);
    if (op.workspace == 0 && !measured.contains(op.kind)) out[id.index()] = std::nullopt;
  }
  return out;
}

}  // namespace ebbtide::jobs
