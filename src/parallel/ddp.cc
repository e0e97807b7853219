// torch's DistributedDataParallel. Buckets of gradients are made with it, in the order in which the parameters'
// gradients come, the last layer first; each is reduced when its last gradient is there. By default gradients have
// memory of their own and are copied into the buckets and back; as views, they lie in them.
#include <algorithm>
#include <map>
#include <string>

#include "parallel/rank.h"
#include "parallel/rewriter.h"
#include "parallel/units.h"

namespace ebbtide::parallel {
namespace {

struct Bucket {
  std::vector<StorageId> gradients;
  Bytes bytes = 0;
  StorageId storage;
  OpId ready;  // the op of the old graph that makes its last gradient
};

// Which op makes a gradient last: of several batches the sum.
std::map<StorageId, OpId> MadeAt(const TrainingGraph& graph) {
  std::map<StorageId, OpId> made;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (graph.ops[i].phase != Phase::kBackward) continue;
    for (const auto* list : {&graph.ops[i].outputs, &graph.ops[i].mutated}) {
      for (const TensorId id : *list) {
        if (graph.storage_of(id).kind == StorageKind::kGradient) made[graph.tensor(id).storage] = OpId(i);
      }
    }
  }
  return made;
}

std::vector<Bucket> BucketsOf(const TrainingGraph& graph, const Layout& layout) {
  std::vector<std::pair<OpId, StorageId>> order;
  for (const auto& [storage, op] : MadeAt(graph)) order.emplace_back(op, storage);
  std::sort(order.begin(), order.end());
  std::vector<Bucket> buckets;
  for (const auto& [op, storage] : order) {
    const Bytes limit = buckets.size() <= 1 ? layout.ddp_first_bucket : layout.ddp_bucket;
    if (buckets.empty() || buckets.back().bytes >= limit) buckets.emplace_back();
    Bucket& bucket = buckets.back();
    bucket.gradients.push_back(storage);
    bucket.bytes += graph.storage(storage).bytes;
    bucket.ready = op;
  }
  return buckets;
}

}  // namespace

TrainingGraph WithDdp(TrainingGraph graph, const Layout& layout) {
  std::vector<Bucket> buckets = BucketsOf(graph, layout);
  Rewriter out(std::move(graph));
  std::multimap<OpId, std::size_t> ready;
  std::map<StorageId, TensorId> gradient;  // one tensor of each
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.storage_of(TensorId(i)).kind == StorageKind::kGradient) {
      gradient.emplace(graph.tensors[i].storage, TensorId(i));
    }
  }
  std::vector<TensorId> flat(buckets.size());
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    // Gradients that are views of it have its bytes: then it takes none beside them.
    const Bytes bytes = layout.gradients_are_views ? 0 : buckets[i].bytes;
    buckets[i].storage = out.NewStorage(bytes, StorageKind::kBuffer, "ddp.buckets." + std::to_string(i));
    flat[i] = out.FlatTensor(buckets[i].storage, graph.tensor(gradient.at(buckets[i].gradients.front())).dtype);
    ready.emplace(buckets[i].ready, i);
  }
  const std::int64_t ranks = layout.data_ranks();
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    out.Copy(OpId(i), [](TensorId id) { return id; });
    const auto [first, last] = ready.equal_range(OpId(i));
    for (auto one = first; one != last; ++one) {
      const Bucket& bucket = buckets[one->second];
      std::vector<TensorId> inputs = {flat[one->second]}, gradients;
      for (const StorageId storage : bucket.gradients) gradients.push_back(gradient.at(storage));
      inputs.insert(inputs.end(), gradients.begin(), gradients.end());
      std::vector<TensorId> mutated = inputs;
      out.EmitCollective("all_reduce", Phase::kBackward, "ddp", inputs, {}, 2 * bucket.bytes * (ranks - 1) / ranks,
                         Stream::kReduce, DataGroup(layout), mutated);
    }
  }
  return std::move(out).Take();
}

}  // namespace ebbtide::parallel
