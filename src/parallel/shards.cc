// Divides what the optimizer works on.
#include "parallel/shards.h"

#include <algorithm>
#include <map>

#include "base/id_set.h"
#include "base/id_vector.h"

namespace ebbtide::parallel {
namespace {

Dims Contiguous(const Dims& shape) {
  Dims stride(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) stride[i - 1] = stride[i] * std::max<std::int64_t>(shape[i], 1);
  return stride;
}

Bytes BytesOf(const Tensor& tensor) {
  std::int64_t elements = 1;
  for (const std::int64_t dim : tensor.shape) elements *= dim;
  return elements * ItemSize(tensor.dtype);
}

}  // namespace

Dims ShardOf(const Dims& shape, std::int64_t ranks) {
  Dims shard = shape;
  const bool is_number = std::all_of(shape.begin(), shape.end(), [](std::int64_t dim) { return dim == 1; });
  if (!shard.empty() && !is_number) shard[0] = (shard[0] + ranks - 1) / ranks;
  return shard;
}

DType ShardType(DType whole, const Layout& layout, bool trained) {
  const bool is_half = whole == DType::kFloat16 || whole == DType::kBFloat16;
  return is_half ? (trained ? layout.trained_shards : layout.frozen_shards).value_or(whole) : whole;
}

void ShardUpdate(Rewriter& rewriter, const Layout& layout, const Units& units) {
  const std::int64_t ranks = layout.data_ranks();
  const TrainingGraph& from = rewriter.from();
  TrainingGraph& out = rewriter.graph();
  IdSet<TensorId> in_update(from.tensors.size());
  for (const Op& op : from.ops) {
    if (op.phase != Phase::kUpdate) continue;
    in_update.insert(op.inputs.begin(), op.inputs.end());
    in_update.insert(op.outputs.begin(), op.outputs.end());
  }
  std::map<StorageId, Bytes> sharded;
  const auto shard = [&](TensorId id, bool trained) {
    Tensor& tensor = out.tensors[id.index()];
    tensor.dtype = ShardType(tensor.dtype, layout, trained);
    tensor.shape = ShardOf(tensor.shape, ranks);
    tensor.stride = Contiguous(tensor.shape);
    tensor.offset = 0;
    Bytes& bytes = sharded[tensor.storage];
    bytes = std::max(bytes, BytesOf(tensor));
  };
  // Parameters that nothing updates are sharded too: what is frozen is gathered like the rest. The first tensor of a
  // parameter is the parameter itself; views of it are of the gathered one.
  IdSet<StorageId> seen(from.storages.size());
  for (std::size_t i = 0; i < from.tensors.size(); ++i) {
    const StorageId storage = from.tensors[i].storage;
    if (from.storage(storage).kind != StorageKind::kParameter) continue;
    if (seen.insert(storage) || in_update.contains(TensorId(i))) {
      shard(TensorId(i), units.gradient_of.contains(storage));
    }
  }
  for (const TensorId id : Ids<TensorId>(from.tensors.size())) {
    if (!in_update.contains(id)) continue;
    const StorageKind kind = from.storage_of(id).kind;
    if (kind == StorageKind::kOptimizerState || kind == StorageKind::kTemporary || kind == StorageKind::kActivation) {
      shard(id, true);
    }
  }
  for (const auto& [storage, bytes] : sharded) out.storages[storage.index()].bytes = bytes;
}

}  // namespace ebbtide::parallel
