// A graph made from another: ops are copied one by one, with tensors exchanged and further ops between them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/collective.h"
#include "graph/graph.h"
#include "parallel/layout.h"

namespace ebbtide::parallel {

// The ranks that see different tokens.
inline RankGroup DataGroup(const Layout& layout) {
  return {"data", layout.data_ranks(), layout.data_ranks() * layout.tp};
}

class Rewriter {
 public:
  // `from` must outlive the rewriter. Its storages and tensors keep their numbers until Take.
  explicit Rewriter(const TrainingGraph& from);
  // As above, for rewriters that copy each op once: Copy moves it, and leaves an empty one in `from`. Its tensors, but
  // for parameters, are left without names, shapes and strides.
  explicit Rewriter(TrainingGraph&& from);

  const TrainingGraph& from() const { return from_; }
  TrainingGraph& graph() { return out_; }
  const TrainingGraph& graph() const { return out_; }

  StorageId NewStorage(Bytes bytes, StorageKind kind, std::string name);
  // All of a storage as one axis.
  TensorId FlatTensor(StorageId storage, DType dtype);
  // The same view on another storage.
  TensorId Rebase(TensorId tensor, StorageId storage);

  // The op that comes next.
  OpId next() const { return OpId(out_.ops.size()); }
  // An op that no model has: "split_with_sizes_copy".
  OpId Emit(std::string kind, Phase phase, std::string layer, std::vector<TensorId> inputs,
            std::vector<TensorId> outputs, Stream stream = Stream::kCompute, std::vector<TensorId> mutated = {});
  // One by which a group of ranks talks: "all_gather_into_tensor".
  OpId EmitCollective(std::string kind, Phase phase, std::string layer, std::vector<TensorId> inputs,
                      std::vector<TensorId> outputs, Bytes moved, Stream stream, const RankGroup& group,
                      std::vector<TensorId> mutated = {});
  // The op of the old graph, every tensor of it exchanged.
  OpId Copy(OpId old, const std::function<TensorId(TensorId)>& exchanged);

  // The old graph's releases, by the ops' new places; storages and tensors that no op touches are left out, unless
  // they are inputs or the graph's outputs.
  TrainingGraph Take() &&;

 private:
  void CopyHead();

  const TrainingGraph& from_;
  std::vector<Op>* spent_ = nullptr;  // the ops of `from_`, where they may be moved
  TrainingGraph out_;
  std::vector<OpId> moved_;  // by old op: its new place
};

}  // namespace ebbtide::parallel
