// torch's fully sharded data parallelism. Each rank holds a shard of every parameter, of its gradient and of its state.
//
//   fully_shard (2)  a unit is gathered into one flat buffer and copied out of it into tensors of its own; the buffer
//                    of one unit lives until the next is gathered. In backward the next unit is gathered while this one
//                    runs. Gradients are copied into one flat buffer, which lives until the next unit's, and reduced
//                    into shards that lie in one storage.
//   FullyShardedDataParallel (1)  the flat buffer itself is the parameters; gradients come as one flat tensor beside
//                    the single ones.
//
// Units are the blocks of the model; what lies in none is a unit that stays gathered from forward to backward.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "parallel/rank.h"
#include "parallel/rewriter.h"
#include "parallel/shards.h"
#include "parallel/units.h"

namespace ebbtide::parallel {
namespace {

class Fsdp {
 public:
  Fsdp(const TrainingGraph& graph, const Layout& layout)
      : from_(graph), layout_(layout), ranks_(layout.data_ranks()), units_(FindUnits(graph)), out_(graph) {
    ShardUpdate(out_, ranks_);
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      tensors_of_[graph.tensors[i].storage].push_back(TensorId(i));
    }
    FindReads();
    for (std::size_t u = 0; u < units_.units.size(); ++u) Note(u);
    std::sort(backward_order_.begin(), backward_order_.end(), [&](std::size_t a, std::size_t b) {
      return units_.units[a].backward_begin < units_.units[b].backward_begin;
    });
  }

  TrainingGraph Run() && {
    for (std::size_t i = 0; i < from_.ops.size(); ++i) {
      const OpId old(i);
      for (const std::size_t u : At(forward_at_, old)) GatherForward(u);
      if (from_.op(old).phase == Phase::kBackward && !std::exchange(backward_begun_, true)) BeginBackward();
      for (const std::size_t u : At(backward_at_, old)) GatherBackward(u);
      Copy(old);
      for (const std::size_t u : At(forward_end_, old)) EndForward(u);
      for (const std::size_t u : At(reduce_at_, old)) Reduce(u);
    }
    return std::move(out_).Take();
  }

 private:
  using Places = std::multimap<OpId, std::size_t>;
  // Where one unit's whole parameters are, for one direction.
  struct Gathered {
    std::map<TensorId, TensorId> tensors;  // by tensor of the old graph
    std::vector<StorageId> storages;
    StorageId flat;
    TensorId flat_tensor;
  };

  static std::vector<std::size_t> At(const Places& places, OpId op) {
    std::vector<std::size_t> units;
    const auto [first, last] = places.equal_range(op);
    for (auto one = first; one != last; ++one) units.push_back(one->second);
    return units;
  }

  // What backward reads of parameters, and which tensors ops of each direction yield of them.
  void FindReads() {
    for (const Op& op : from_.ops) {
      if (op.phase != Phase::kBackward) continue;
      for (const TensorId id : op.outputs) yielded_in_backward_.insert(id);
      for (const TensorId id : op.inputs) {
        if (from_.storage_of(id).kind == StorageKind::kParameter) read_in_backward_.insert(id);
      }
    }
    for (const Op& op : from_.ops) {
      if (op.phase == Phase::kForward) yielded_in_forward_.insert(op.outputs.begin(), op.outputs.end());
      if (op.phase != Phase::kUpdate) continue;
      in_update_.insert(op.inputs.begin(), op.inputs.end());
      in_update_.insert(op.outputs.begin(), op.outputs.end());
      yielded_in_update_.insert(op.outputs.begin(), op.outputs.end());
    }
  }

  bool StaysGathered(const Unit& unit) const { return unit.name.empty() || !layout_.reshard_after_forward; }

  void Note(std::size_t u) {
    const Unit& unit = units_.units[u];
    forward_.emplace_back();
    backward_.emplace_back();
    if (unit.InForward()) {
      forward_at_.emplace(unit.forward_begin, u);
      forward_end_.emplace(OpId(unit.forward_end.index() - 1), u);
    }
    const bool reads = std::any_of(unit.parameters.begin(), unit.parameters.end(), [&](StorageId parameter) {
      const auto& tensors = tensors_of_[parameter];
      return std::any_of(tensors.begin(), tensors.end(), [&](TensorId id) { return read_in_backward_.contains(id); });
    });
    if (unit.InBackward() && reads && !StaysGathered(unit)) {
      backward_at_.emplace(unit.backward_begin, u);
      backward_order_.push_back(u);
    }
    if (!unit.trained) return;
    std::size_t last = unit.backward_end.index();
    for (std::size_t i = 0; i < from_.ops.size(); ++i) {
      if (from_.ops[i].phase != Phase::kBackward) continue;
      for (const auto* list : {&from_.ops[i].outputs, &from_.ops[i].mutated}) {
        for (const TensorId id : *list) {
          if (IsGradientOf(id, u)) last = std::max(last, i + 1);
        }
      }
    }
    reduce_at_.emplace(OpId(last - 1), u);
  }

  bool IsGradientOf(TensorId id, std::size_t u) {
    const StorageId storage = from_.tensor(id).storage;
    if (from_.storage(storage).kind != StorageKind::kGradient) return false;
    if (unit_of_gradient_.empty()) {
      for (const auto& [parameter, gradient] : units_.gradient_of) {
        unit_of_gradient_.emplace(gradient, units_.unit_of.at(parameter));
      }
    }
    const auto found = unit_of_gradient_.find(storage);
    return found != unit_of_gradient_.end() && found->second == u;
  }

  Bytes Whole(StorageId parameter) const { return out_.graph().storage(parameter).bytes * ranks_; }

  // The shards of all ranks, one behind the other.
  void GatherFlat(std::size_t u, Gathered& into, Phase phase) {
    const Unit& unit = units_.units[u];
    Bytes bytes = 0;
    std::vector<TensorId> shards;
    for (const StorageId parameter : unit.parameters) {
      bytes += Whole(parameter);
      shards.push_back(tensors_of_[parameter].front());
    }
    into.flat = out_.NewStorage(bytes, StorageKind::kTemporary, "");
    into.flat_tensor = out_.FlatTensor(into.flat, from_.tensor(shards.front()).dtype);
    out_.Emit("all_gather_into_tensor", phase, unit.name, shards, {into.flat_tensor}, bytes * (ranks_ - 1) / ranks_);
  }

  // The unit's parameters as ops see them. `wanted`: the tensors that ops read and none of this direction yields.
  template <class Wanted>
  void CopyOut(std::size_t u, Gathered& into, Phase phase, const Wanted& wanted) {
    const Unit& unit = units_.units[u];
    std::vector<TensorId> outputs;
    Bytes begin = 0;  // of the parameter in the flat buffer
    for (const StorageId parameter : unit.parameters) {
      StorageId storage = into.flat;
      if (layout_.data != DataParallel::kFsdp1) {
        storage = out_.NewStorage(Whole(parameter), StorageKind::kTemporary, "");
        into.storages.push_back(storage);
      }
      for (const TensorId id : tensors_of_[parameter]) {
        // Whole again: the tensor of the old graph, on the gathered storage.
        const TensorId whole = out_.Rebase(id, storage);
        Tensor& tensor = out_.graph().tensors[whole.index()];
        const Tensor& before = from_.tensor(id);
        tensor.shape = before.shape;
        tensor.stride = before.stride;
        tensor.offset = before.offset + (storage == into.flat ? begin / ItemSize(before.dtype) : 0);
        into.tensors.emplace(id, whole);
        if (wanted(id)) outputs.push_back(whole);
      }
      begin += Whole(parameter);
    }
    out_.Emit(layout_.data == DataParallel::kFsdp1 ? "_use_unsharded_views" : "split_with_sizes_copy", phase, unit.name,
              {into.flat_tensor}, outputs);
  }

  void GatherForward(std::size_t u) {
    if (units_.units[u].parameters.empty()) return;
    Gathered& into = forward_[u];
    GatherFlat(u, into, Phase::kForward);
    if (before_.valid() && layout_.data != DataParallel::kFsdp1) {
      out_.graph().storages[before_.index()].released_after = OpId(out_.next().index() - 1);
    }
    CopyOut(u, into, Phase::kForward,
            [&](TensorId id) { return !yielded_in_forward_.contains(id) && !yielded_in_backward_.contains(id); });
    before_ = into.flat;
  }

  void EndForward(std::size_t u) {
    const Unit& unit = units_.units[u];
    if (StaysGathered(unit)) return;
    const OpId last(out_.next().index() - 1);
    for (const StorageId storage : forward_[u].storages) out_.graph().storages[storage.index()].released_after = last;
    if (layout_.data == DataParallel::kFsdp1 && forward_[u].flat.valid()) {
      out_.graph().storages[forward_[u].flat.index()].released_after = last;
    }
  }

  // What backward needs first is gathered when it begins.
  void BeginBackward() {
    if (backward_order_.empty()) return;
    GatherFlat(backward_order_.front(), backward_[backward_order_.front()], Phase::kBackward);
  }

  // A unit's parameters go when its backward has ended, not with their last use.
  void EndBackward(std::size_t u) {
    const OpId last(out_.next().index() - 1);
    for (Gathered* held : {&forward_[u], &backward_[u]}) {
      const bool ends_here = held == &backward_[u] || StaysGathered(units_.units[u]);
      if (!ends_here) continue;
      for (const StorageId storage : held->storages) out_.graph().storages[storage.index()].released_after = last;
      if (layout_.data == DataParallel::kFsdp1 && held->flat.valid()) {
        out_.graph().storages[held->flat.index()].released_after = last;
      }
    }
  }

  void GatherBackward(std::size_t u) {
    const auto place = std::find(backward_order_.begin(), backward_order_.end(), u);
    if (!backward_[u].flat.valid()) GatherFlat(u, backward_[u], Phase::kBackward);
    CopyOut(u, backward_[u], Phase::kBackward,
            [&](TensorId id) { return read_in_backward_.contains(id) && !yielded_in_backward_.contains(id); });
    if (place + 1 != backward_order_.end() && !backward_[*(place + 1)].flat.valid()) {
      GatherFlat(*(place + 1), backward_[*(place + 1)], Phase::kBackward);
    }
  }

  void Copy(OpId old) {
    const Phase phase = from_.op(old).phase;
    out_.Copy(old, [&](TensorId id) {
      const StorageId storage = from_.tensor(id).storage;
      if (phase == Phase::kUpdate) {
        const auto shard = gradient_shard_.find(id);
        return shard == gradient_shard_.end() ? id : shard->second;
      }
      const auto unit = units_.unit_of.find(storage);
      if (unit == units_.unit_of.end()) return id;
      const Gathered& backward = backward_[unit->second];
      if (phase == Phase::kBackward && !backward.tensors.empty()) return backward.tensors.at(id);
      const auto found = forward_[unit->second].tensors.find(id);
      return found == forward_[unit->second].tensors.end() ? id : found->second;
    });
  }

  // The unit's gradients, summed over the ranks, each keeping its part.
  void Reduce(std::size_t u) {
    EndBackward(u);
    const Unit& unit = units_.units[u];
    Bytes shards = 0;
    std::vector<TensorId> whole;
    std::vector<std::pair<StorageId, Bytes>> offsets;  // by gradient: where its shard begins
    for (const StorageId parameter : unit.parameters) {
      const auto gradient = units_.gradient_of.find(parameter);
      if (gradient == units_.gradient_of.end()) continue;
      Storage& storage = out_.graph().storages[gradient->second.index()];
      storage.kind = StorageKind::kTemporary;
      storage.released_after = OpId();
      storage.name.clear();
      whole.push_back(tensors_of_[gradient->second].front());
      offsets.emplace_back(gradient->second, shards);
      shards += out_.graph().storage(parameter).bytes;
    }
    if (whole.empty()) return;
    const DType dtype = from_.tensor(whole.front()).dtype;
    const StorageId input = out_.NewStorage(shards * ranks_, StorageKind::kTemporary, "");
    const TensorId flat_input = out_.FlatTensor(input, dtype);
    if (reduced_.valid()) out_.graph().storages[reduced_.index()].released_after = OpId(out_.next().index() - 1);
    out_.Emit("_chunk_cat", Phase::kBackward, unit.name, whole, {flat_input});
    const StorageId output = out_.NewStorage(shards, StorageKind::kGradient, unit.name + ".grad");
    const TensorId flat_output = out_.FlatTensor(output, dtype);
    std::vector<TensorId> outputs = {flat_output};
    for (const auto& [gradient, offset] : offsets) {
      for (const TensorId id : tensors_of_[gradient]) {
        if (!in_update_.contains(id)) continue;
        const TensorId shard = out_.Rebase(id, output);
        Tensor& tensor = out_.graph().tensors[shard.index()];
        tensor.shape = ShardOf(tensor.shape, ranks_);
        for (std::size_t i = tensor.shape.size(), step = 1; i-- > 0;) {
          tensor.stride[i] = static_cast<std::int64_t>(step);
          step *= static_cast<std::size_t>(std::max<std::int64_t>(tensor.shape[i], 1));
        }
        tensor.offset = offset / ItemSize(tensor.dtype);
        gradient_shard_.emplace(id, shard);
        if (!yielded_in_update_.contains(id)) outputs.push_back(shard);
      }
    }
    out_.Emit("reduce_scatter_tensor", Phase::kBackward, unit.name, {flat_input}, outputs, shards * (ranks_ - 1));
    reduced_ = input;
  }

  const TrainingGraph& from_;
  const Layout layout_;
  const std::int64_t ranks_;
  Units units_;
  Rewriter out_;
  std::map<StorageId, std::vector<TensorId>> tensors_of_;  // of the old graph
  std::set<TensorId> read_in_backward_, yielded_in_backward_, yielded_in_forward_, in_update_, yielded_in_update_;
  std::map<StorageId, std::size_t> unit_of_gradient_;
  Places forward_at_, forward_end_, backward_at_, reduce_at_;
  std::vector<std::size_t> backward_order_;
  std::vector<Gathered> forward_, backward_;  // by unit
  std::map<TensorId, TensorId> gradient_shard_;
  bool backward_begun_ = false;
  StorageId before_;   // the flat buffer of the unit gathered last, in forward
  StorageId reduced_;  // the flat buffer of the unit reduced last
};

}  // namespace

TrainingGraph WithFsdp(const TrainingGraph& graph, const Layout& layout) { return Fsdp(graph, layout).Run(); }

}  // namespace ebbtide::parallel
