// DeepSpeed's ZeRO with its defaults: every rank keeps a float32 copy of its part of the parameters, on which a fused
// optimizer works, and the parts come together again in the parameters' own type. Gradients go through one contiguous
// buffer, which backward makes and which has its full size however small the model is. Stage 1 keeps all gradients,
// stage 2 this rank's part, stage 3 divides the parameters too and gathers them unit by unit. Of several batches before
// one update stage 1 adds up gradients and reduces the sums; the others reduce those of each, and add up parts.
#include <algorithm>
#include <set>

#include "parallel/passes.h"
#include "parallel/rank.h"
#include "parallel/rewriter.h"
#include "parallel/units.h"

namespace ebbtide::parallel {
namespace {

class Zero {
 public:
  Zero(TrainingGraph graph, const Layout& layout)
      : from_(std::move(graph)), layout_(layout), ranks_(layout.data_ranks()), out_(std::move(from_)) {
    for (std::size_t i = 0; i < from_.tensors.size(); ++i) {
      const Tensor& tensor = from_.tensors[i];
      const Storage& storage = from_.storage(tensor.storage);
      if (storage.kind == StorageKind::kGradient && seen_.insert(tensor.storage).second) {
        gradients_.push_back(TensorId(i));
        dtype_ = tensor.dtype;
        gradient_bytes_ += storage.bytes;
      }
      if (storage.kind == StorageKind::kOptimizerState && seen_.insert(tensor.storage).second) {
        state_elements_ += storage.bytes / ItemSize(tensor.dtype);
      }
      if (storage.kind == StorageKind::kParameter && seen_.insert(tensor.storage).second) {
        parameters_.push_back(TensorId(i));
      }
    }
    // Stage 3 has divided gradients already.
    const std::int64_t elements = gradient_bytes_ / ItemSize(dtype_);
    part_ = layout.data == DataParallel::kZero3 ? elements : (elements + ranks_ - 1) / ranks_;
    states_ = elements > 0 ? (state_elements_ + elements / 2) / elements : 0;
  }

  TrainingGraph Run() && {
    const std::vector<Pass> passes = PassesOf(from_);
    const std::map<OpId, AddedGradient> added = AddedGradients(from_, passes);
    for (std::size_t number = 0; number < passes.size(); ++number) {
      const bool is_reduced = number + 1 == passes.size() || layout_.data != DataParallel::kZero1;
      bool has_backward = false;
      for (std::size_t i = passes[number].begin; i < passes[number].end; ++i) {
        const Phase phase = from_.ops[i].phase;
        if (phase == Phase::kUpdate) continue;
        has_backward |= phase == Phase::kBackward;
        if (has_backward && !bucket_.valid()) MakeBucket();
        const auto sum = added.find(OpId(i));
        if (sum != added.end() && DropsGradients()) {
          Take(sum->second.fresh);
          continue;
        }
        const std::vector<TensorId> outputs = from_.ops[i].outputs;
        out_.Copy(OpId(i), [](TensorId id) { return id; });
        if (phase != Phase::kBackward || !is_reduced) continue;
        if (sum != added.end() && layout_.data == DataParallel::kZero1) Take(outputs.front());
        TakeGradients(outputs);
      }
      if (has_backward && is_reduced) EndBackward();
    }
    Update();
    return std::move(out_).Take();
  }

 private:
  bool DropsGradients() const { return layout_.data == DataParallel::kZero2; }

  void MakeBucket() {
    bucket_storage_ = out_.NewStorage(layout_.zero_bucket * ItemSize(dtype_), StorageKind::kTemporary, "");
    bucket_ = out_.FlatTensor(bucket_storage_, dtype_);
    // What is used of it at most.
    out_.graph().tensors[bucket_.index()].shape = {std::min(layout_.zero_bucket, gradient_bytes_ / ItemSize(dtype_))};
    out_.Emit("empty", Phase::kBackward, "zero.bucket", {}, {bucket_});
  }

  // Of what an op has made, whatever is a gradient.
  void TakeGradients(const std::vector<TensorId>& outputs) {
    for (const TensorId id : outputs) {
      if (std::find(gradients_.begin(), gradients_.end(), id) == gradients_.end()) continue;
      Take(id);
      if (!DropsGradients()) continue;
      Storage& storage = out_.graph().storages[from_.tensor(id).storage.index()];
      storage.kind = StorageKind::kTemporary;
      storage.released_after = OpId();
    }
  }

  // A gradient goes into the bucket, and through it to its owner.
  void Take(TensorId id) {
    const Bytes bytes = from_.storage_of(id).bytes;
    if (filled_ + bytes > layout_.zero_bucket * ItemSize(dtype_)) Reduce();
    // As much as is copied into its place in the bucket.
    out_.Emit("copy_", Phase::kBackward, "zero", {id}, {}, Stream::kCompute, {id});
    filled_ += bytes;
  }

  // The bucket, when it is full. Computation waits for it (overlap_comm=False). Stage 3 has reduced what comes here.
  void Reduce() {
    const Bytes moved = layout_.data == DataParallel::kZero3 ? 0 : filled_ * (ranks_ - 1) / ranks_;
    filled_ = 0;
    if (moved == 0) return;
    out_.EmitCollective("reduce_scatter_tensor", Phase::kBackward, "zero", {bucket_}, {}, moved, Stream::kCompute,
                        DataGroup(layout_), {bucket_});
  }

  void EndBackward() {
    if (!bucket_.valid()) return;
    Reduce();
    if (DropsGradients()) {
      const bool is_first = !partition_.valid();
      const StorageId kept =
          out_.NewStorage(part_ * ItemSize(dtype_), is_first ? StorageKind::kGradient : StorageKind::kTemporary,
                          is_first ? "zero.grad" : "");
      const TensorId part = out_.FlatTensor(kept, dtype_);
      out_.Emit("average_tensor", Phase::kBackward, "zero", {bucket_}, {part});
      if (!is_first)
        out_.Emit("add_", Phase::kBackward, "zero", {partition_, part}, {}, Stream::kCompute, {partition_});
      if (is_first) partition_ = part;
    } else {
      out_.Emit("average_tensor", Phase::kBackward, "zero", {bucket_}, {}, Stream::kCompute, {bucket_});
    }
  }

  void Update() {
    if (gradients_.empty() || part_ == 0) return;
    const TensorId master =
        out_.FlatTensor(out_.NewStorage(part_ * 4, StorageKind::kOptimizerState, "zero.master"), DType::kFloat32);
    std::vector<TensorId> changed = {master};
    for (std::int64_t i = 0; i < states_; ++i) {
      changed.push_back(
          out_.FlatTensor(out_.NewStorage(part_ * 4, StorageKind::kOptimizerState, "zero.state." + std::to_string(i)),
                          DType::kFloat32));
    }
    const TensorId gradient = out_.FlatTensor(out_.NewStorage(part_ * 4, StorageKind::kTemporary, ""), DType::kFloat32);
    out_.Emit("_to_copy", Phase::kUpdate, "zero", partition_.valid() ? std::vector{partition_} : gradients_,
              {gradient});
    std::vector<TensorId> inputs = changed;
    inputs.push_back(gradient);
    out_.Emit("_fused_adamw_", Phase::kUpdate, "zero", inputs, {}, Stream::kCompute, changed);
    std::vector<TensorId> gathered = parameters_;
    gathered.insert(gathered.begin(), master);
    const Bytes moved = layout_.data == DataParallel::kZero3 ? 0 : gradient_bytes_ * (ranks_ - 1) / ranks_;
    out_.EmitCollective("all_gather_into_tensor", Phase::kUpdate, "zero", gathered, {}, moved, Stream::kCompute,
                        DataGroup(layout_), parameters_);
  }

  TrainingGraph from_;  // without the ops that are copied already
  const Layout layout_;
  const std::int64_t ranks_;
  Rewriter out_;
  std::set<StorageId> seen_;
  std::vector<TensorId> gradients_, parameters_;  // one tensor of each storage
  Bytes gradient_bytes_ = 0;
  std::int64_t state_elements_ = 0;
  std::int64_t part_ = 0;    // elements that this rank updates
  std::int64_t states_ = 0;  // of the optimizer, per element
  DType dtype_ = DType::kFloat32;
  StorageId bucket_storage_;
  Bytes filled_ = 0;  // of the bucket
  TensorId bucket_, partition_;
};

}  // namespace

TrainingGraph WithZero(TrainingGraph graph, const Layout& layout) {
  if (layout.data != DataParallel::kZero3) return Zero(std::move(graph), layout).Run();
  Layout sharded = layout;
  sharded.data = DataParallel::kFsdp2;
  sharded.reduces_each_batch = true;
  return Zero(WithFsdp(std::move(graph), sharded), layout).Run();
}

}  // namespace ebbtide::parallel
