// Ranks that share a sequence, as torch's context_parallel has it: the graph is of one rank's part, whose length it
// has, and only attention needs the others' keys and values.
//
// Keys and values of all ranks are gathered into one buffer; attention runs once for each rank's part of them, and
// results are merged in float32. Of a causal mask every rank has a part from the beginning and one from the end, so
// that most passes are of half a part. Backward gathers once more, sums in float32, and hands gradients of keys and
// values on from rank to rank. What is merged lies row by row, so the model's next view of it is a copy; the result
// itself is kept for backward. The figures are those of the first rank, which merges halves in every pass.
#include <algorithm>
#include <map>
#include <string_view>

#include "graph/arguments.h"
#include "parallel/rank.h"
#include "parallel/rewriter.h"

namespace ebbtide::parallel {
namespace {

constexpr std::string_view kBackward = "_backward";

bool IsAttention(std::string_view kind) {
  return kind.starts_with("_scaled_dot_product_") && kind != "_scaled_dot_product_attention_math";
}

bool IsContiguous(const Tensor& tensor) {
  std::int64_t expected = 1;
  for (std::size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.stride[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

std::int64_t Elements(const Tensor& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t dim : tensor.shape) count *= dim;
  return count;
}

class Ring {
 public:
  Ring(const TrainingGraph& graph, const Layout& layout)
      : from_(graph), ranks_(layout.cp), group_{"context", layout.cp, layout.cp * layout.tp}, out_(graph) {}

  Result<TrainingGraph> Run() && {
    bool any = false;
    for (std::size_t i = 0; i < from_.ops.size(); ++i) {
      const Op& op = from_.ops[i];
      const TensorId query = Of(op, "query"), key = Of(op, "key"), value = Of(op, "value");
      if (!IsAttention(op.kind) || !query.valid() || !key.valid() || !value.valid() || op.outputs.empty()) {
        out_.Copy(OpId(i), [](TensorId id) { return id; });
        continue;
      }
      any = true;
      if (Of(op, "attn_bias").valid() || Of(op, "attn_mask").valid()) {
        return Fail("--cp: {} of {} has a mask of its own, which torch's context_parallel refuses", op.kind, op.layer);
      }
      if (op.kind.ends_with(kBackward)) {
        Backward(OpId(i), query, key, value);
      } else {
        Forward(OpId(i), query, key, value);
      }
    }
    if (!any) {
      return Fail("--cp: expected attention by scaled_dot_product_attention (--attention sdpa or flash), found none");
    }
    return std::move(out_).Take();
  }

 private:
  static TensorId Of(const Op& op, std::string_view name) {
    const TensorId* id = ArgumentAs<TensorId>(op, name);
    return id == nullptr ? TensorId() : *id;
  }

  TensorId New(std::int64_t elements, DType dtype) {
    return out_.FlatTensor(out_.NewStorage(elements * ItemSize(dtype), StorageKind::kTemporary, ""), dtype);
  }

  // Of all ranks, one buffer. What it is made of is let go.
  TensorId Gather(const Op& op, TensorId key, TensorId value) {
    std::vector<TensorId> parts;
    std::int64_t elements = 0;
    for (const TensorId id : {key, value}) {
      const Tensor& tensor = from_.tensor(id);
      elements += Elements(tensor);
      parts.push_back(id);
      if (IsContiguous(tensor)) continue;
      parts.back() = New(Elements(tensor), tensor.dtype);
      out_.Emit("clone", op.phase, op.layer, {id}, {parts.back()});
    }
    copies_ = parts;
    const DType dtype = from_.tensor(key).dtype;
    const TensorId joined = New(elements, dtype), all = New(elements * ranks_, dtype);
    out_.Emit("cat", op.phase, op.layer, parts, {joined});
    out_.EmitCollective("all_gather_into_tensor", op.phase, op.layer, {joined}, {all},
                        elements * ItemSize(dtype) * (ranks_ - 1), Stream::kCompute, group_);
    return all;
  }

  // The op itself, which has the copies of keys and values with it.
  void CopyOp(OpId old, TensorId before = {}, TensorId now = {}) {
    out_.Copy(old, [&](TensorId id) { return id == before && now.valid() ? now : id; });
    std::vector<TensorId>& inputs = out_.graph().ops.back().inputs;
    for (const TensorId id : copies_) {
      if (std::find(inputs.begin(), inputs.end(), id) == inputs.end()) inputs.push_back(id);
    }
  }

  void Forward(OpId old, TensorId query, TensorId key, TensorId value) {
    const Op& op = from_.op(old);
    const TensorId all = Gather(op, key, value), result = op.outputs.front();
    CopyOp(old);
    const std::int64_t elements = Elements(from_.tensor(result));
    const DType dtype = from_.tensor(result).dtype;
    const bool converts = dtype != DType::kFloat32;
    TensorId merged = result;
    if (converts) {
      merged = New(elements, DType::kFloat32);
      out_.Emit("_to_copy", op.phase, op.layer, {result}, {merged});
    }
    for (std::int64_t i = 1; i < ranks_; ++i) {
      std::vector<TensorId> made = {New(elements / 2, dtype)};
      for (int j = converts ? 0 : 1; j < 4; ++j) made.push_back(New(elements / 2, DType::kFloat32));
      out_.Emit("ring_attention", op.phase, op.layer, {query, all, merged}, made);
      const TensorId next = New(elements, DType::kFloat32);
      out_.Emit("cat", op.phase, op.layer, {merged, made.back()}, {next});
      merged = next;
    }
    if (converts) {
      const TensorId narrow = New(elements, dtype);
      out_.Emit("_to_copy", op.phase, op.layer, {merged}, {narrow});
      merged = narrow;
    }
    merged_[result] = merged;
  }

  void Backward(OpId old, TensorId query, TensorId key, TensorId value) {
    const Op& op = from_.op(old);
    std::vector<TensorId> sums;
    for (const TensorId id : {query, key, value}) {
      sums.push_back(New(Elements(from_.tensor(id)), DType::kFloat32));
      out_.Emit("zeros_like", op.phase, op.layer, {id}, {sums.back()});
    }
    const TensorId all = Gather(op, key, value), result = Of(op, "out");
    const auto merged = merged_.find(result);
    CopyOp(old, result, merged == merged_.end() ? TensorId() : merged->second);
    const std::int64_t keys = Elements(from_.tensor(key)), values = Elements(from_.tensor(value));
    std::vector<TensorId> handed = {sums[1], sums[2]};
    TensorId made = op.outputs.front();
    for (std::int64_t i = 0; i < ranks_; ++i) {
      if (i > 0) {
        const DType dtype = from_.tensor(query).dtype;
        const std::vector<TensorId> gradients = {New(Elements(from_.tensor(query)) / 2, dtype), New(keys, dtype),
                                                 New(values, dtype)};
        out_.Emit("ring_attention_backward", op.phase, op.layer, {query, all, handed.front()}, gradients);
        made = gradients.front();
      }
      const TensorId joined = New(keys + values, DType::kFloat32), next = New(keys + values, DType::kFloat32);
      out_.Emit("cat", op.phase, op.layer, handed, {joined});
      out_.EmitCollective("all_to_all_single", op.phase, op.layer, {joined}, {next}, (keys + values) * 4,
                          Stream::kCompute, group_);
      handed = {next};
      const TensorId sum = i == 0 ? sums[0] : New(Elements(from_.tensor(query)), DType::kFloat32);
      out_.Emit(i == 0 ? "add_" : "cat", op.phase, op.layer, {sums[0], made, next},
                i == 0 ? std::vector<TensorId>{} : std::vector{sum}, Stream::kCompute,
                i == 0 ? std::vector{sums[0]} : std::vector<TensorId>{});
      sums[0] = sum;
    }
  }

  const TrainingGraph& from_;
  const std::int64_t ranks_;
  const RankGroup group_;
  Rewriter out_;
  std::vector<TensorId> copies_;         // of keys and values, for the op at hand
  std::map<TensorId, TensorId> merged_;  // by result of a forward op
};

}  // namespace

Result<TrainingGraph> ContextParallel(const TrainingGraph& graph, const Layout& layout) {
  return Ring(graph, layout).Run();
}

}  // namespace ebbtide::parallel
