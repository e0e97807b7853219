// DeepSpeed's ZeRO with its defaults: every rank keeps a float32 copy of its part of the parameters, on which a fused
// optimizer works, and the parts come together again in the parameters' own type. Gradients go through one contiguous
// buffer, which backward makes and which has its full size however small the model is. Stage 1 keeps all gradients,
// stage 2 this rank's part, stage 3 divides the parameters too and gathers them unit by unit.
#include <algorithm>
#include <set>

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
    OpId last_backward;
    for (std::size_t i = 0; i < from_.ops.size(); ++i) {
      if (from_.ops[i].phase == Phase::kBackward) last_backward = OpId(i);
    }
    for (std::size_t i = 0; i < from_.ops.size(); ++i) {
      const Phase phase = from_.ops[i].phase;
      if (phase == Phase::kUpdate) continue;
      if (phase == Phase::kBackward && !bucket_.valid()) MakeBucket();
      const OpId copied = out_.Copy(OpId(i), [](TensorId id) { return id; });
      if (phase == Phase::kBackward) TakeGradients(copied);
      if (OpId(i) == last_backward) EndBackward();
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

  // What an op has made goes into the bucket, and through it to its owner.
  void TakeGradients(OpId copied) {
    for (const TensorId id : std::vector(out_.graph().op(copied).outputs)) {
      if (std::find(gradients_.begin(), gradients_.end(), id) == gradients_.end()) continue;
      const Bytes bytes = from_.storage_of(id).bytes;
      if (filled_ + bytes > layout_.zero_bucket * ItemSize(dtype_)) Reduce();
      // As much as is copied into its place in the bucket.
      out_.Emit("copy_", Phase::kBackward, "zero", {id}, {}, Stream::kCompute, {id});
      filled_ += bytes;
      if (!DropsGradients()) continue;
      Storage& storage = out_.graph().storages[from_.tensor(id).storage.index()];
      storage.kind = StorageKind::kTemporary;
      storage.released_after = OpId();
    }
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
      const StorageId kept = out_.NewStorage(part_ * ItemSize(dtype_), StorageKind::kGradient, "zero.grad");
      partition_ = out_.FlatTensor(kept, dtype_);
      out_.Emit("average_tensor", Phase::kBackward, "zero", {bucket_}, {partition_});
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
  return Zero(WithFsdp(std::move(graph), sharded), layout).Run();
}

}  // namespace ebbtide::parallel
