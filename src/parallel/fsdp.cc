// torch's fully sharded data parallelism. Each rank holds a shard of every parameter, of its gradient and of its state.
//
//   fully_shard (2)  a unit is gathered into one flat buffer and copied out of it into tensors of its own; the buffer
//                    of one unit lives until the next is gathered. In backward the next unit is gathered while this one
//                    runs. Gradients are copied into one flat buffer, which lives until the next unit's, and reduced
//                    into shards that lie in one storage.
//   FullyShardedDataParallel (1)  the flat buffer itself is the parameters; gradients come as one flat tensor beside
//                    the single ones, which goes when it is reduced. Of a frozen block whose computation is repeated by
//                    a reentrant checkpoint, a hook on what goes into it holds that and its gradient until backward has
//                    ended; the block behind it is not gathered early, as nothing has asked for it yet.
//
// Units are the blocks of the model; what lies in none is a unit that stays gathered from forward to backward, and to
// the end of backward where it is frozen. Buffers of gathered parameters and reduced gradients are memory of their own
// streams. Where shards have another type than computation, a part is converted before it is gathered, and after it was
// reduced. Of several batches before one update, each gathers; gradients add up whole, single (2) or flat (1), and the
// last batch's are reduced, or those of each are, and shards add up.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/id_set.h"
#include "parallel/fsdp_schedule.h"
#include "parallel/rank.h"
#include "parallel/rewriter.h"
#include "parallel/shards.h"
#include "parallel/units.h"

namespace ebbtide::parallel {
namespace {

class Fsdp {
 public:
  Fsdp(TrainingGraph graph, const Layout& layout)
      : from_(std::move(graph)),
        layout_(layout),
        ranks_(layout.data_ranks()),
        units_(FindUnits(from_, IsFirst() && layout.adapters_apart)),
        schedule_(ScheduleOf(from_, units_, layout)),
        out_(std::move(from_)) {
    ShardUpdate(out_, layout, units_);
    for (std::size_t i = 0; i < from_.tensors.size(); ++i) {
      const StorageKind kind = from_.storage_of(TensorId(i)).kind;
      if (kind != StorageKind::kParameter && kind != StorageKind::kGradient) continue;
      tensors_of_[from_.tensors[i].storage].push_back(TensorId(i));
    }
    FindReads();
    if (IsFirst() || layout.reduces_each_batch) added_ = AddedGradients(from_, BatchesOf(from_, layout));
    for (const UnitsPass& pass : schedule_.passes) {
      if (IsFirst() && layout.reentrant) HoldInputs(pass);
    }
    BeginPass(0);
  }

  TrainingGraph Run() && {
    for (std::size_t i = 0; i < from_.ops.size(); ++i) {
      const OpId old(i);
      if (now_ + 1 < schedule_.passes.size() && i == schedule_.passes[now_ + 1].begin) BeginPass(now_ + 1);
      for (const std::size_t u : At(schedule_.forward_at, old)) GatherForward(u);
      if (from_.op(old).phase == Phase::kBackward && !std::exchange(backward_begun_, true)) BeginBackward();
      for (const std::size_t u : At(schedule_.backward_at, old)) GatherBackward(u);
      for (const std::size_t u : At(holding_at_, old)) holding_ = u, holds_from_ = out_.next();
      if (const auto added = added_.find(old); added != added_.end()) {
        fresh_[added->second.gradient] = added->second.fresh;  // what comes of it is added with its unit
      } else if (holding_) {
        const std::vector<TensorId> mutated = from_.op(old).mutated, outputs = from_.op(old).outputs;
        Copy(old);
        KeepGradients(old, mutated, outputs);
      } else {
        Copy(old);
      }
      for (const std::size_t u : At(schedule_.forward_end, old)) EndForward(u);
      for (const std::size_t u : At(schedule_.reduce_at, old)) EndUnit(u);
      if (old == pass().last_backward && IsStage()) ReduceAll();
      if (old == pass().last_backward) FinishBackward();
    }
    return std::move(out_).Take();
  }

 private:
  // Where one unit's whole parameters are, for one direction.
  struct Gathered {
    std::map<TensorId, TensorId> tensors;  // by tensor of the old graph
    std::vector<StorageId> storages;
    StorageId flat;
    TensorId flat_tensor;
  };

  const UnitsPass& pass() const { return schedule_.passes[now_]; }
  bool IsLastPass() const { return now_ + 1 == schedule_.passes.size(); }

  void BeginPass(std::size_t number) {
    now_ = number;
    forward_.assign(units_.units.size(), {});
    backward_.assign(units_.units.size(), {});
    fresh_.clear();
    backward_begun_ = false;
    before_ = reduced_ = StorageId();
  }

  bool IsFirst() const { return layout_.data == DataParallel::kFsdp1; }
  bool IsStage() const { return layout_.pp > 1; }

  // What backward reads of parameters, and which tensors ops of each direction yield.
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

  // As it is gathered, padded.
  Bytes Whole(StorageId parameter) {
    const TensorId first = tensors_of_[parameter].front();
    return out_.graph().storage(parameter).bytes / ItemSize(out_.graph().tensor(first).dtype) *
           ItemSize(from_.tensor(first).dtype) * ranks_;
  }

  // The shards of all ranks, one behind the other.
  void GatherFlat(std::size_t u, Gathered& into, Phase phase) {
    const Unit& unit = units_.units[u];
    Bytes bytes = 0;
    std::vector<TensorId> shards;
    bool converts = false;
    for (const StorageId parameter : unit.parameters) {
      const TensorId shard = tensors_of_[parameter].front();
      bytes += Whole(parameter);
      shards.push_back(shard);
      converts |= out_.graph().tensor(shard).dtype != from_.tensor(shard).dtype;
    }
    const DType dtype = from_.tensor(shards.front()).dtype;
    if (converts) {
      const TensorId part = out_.FlatTensor(out_.NewStorage(bytes / ranks_, StorageKind::kTemporary, ""), dtype);
      out_.Emit("_foreach_copy", phase, unit.name, shards, {part}, Stream::kGather);
      shards = {part};
    }
    into.flat = out_.NewStorage(bytes, StorageKind::kTemporary, "");
    into.flat_tensor = out_.FlatTensor(into.flat, dtype);
    out_.EmitCollective("all_gather_into_tensor", phase, unit.name, shards, {into.flat_tensor},
                        bytes * (ranks_ - 1) / ranks_, Stream::kGather, DataGroup(layout_));
  }

  // The unit's parameters as ops see them. `wanted`: the tensors that ops read and none of this direction yields.
  template <class Wanted>
  void CopyOut(std::size_t u, Gathered& into, Phase phase, const Wanted& wanted) {
    const Unit& unit = units_.units[u];
    std::vector<TensorId> outputs;
    Bytes begin = 0;  // of the parameter in the flat buffer
    for (const StorageId parameter : unit.parameters) {
      StorageId storage = into.flat;
      if (!IsFirst()) {
        storage = out_.NewStorage(Whole(parameter), StorageKind::kTemporary, "");
        into.storages.push_back(storage);
      }
      for (const TensorId id : tensors_of_[parameter]) {
        // Whole again: the tensor of the old graph, on the gathered storage.
        const TensorId whole = out_.Rebase(id, storage);
        Tensor& tensor = out_.graph().tensors[whole.index()];
        const Tensor& before = from_.tensor(id);
        tensor.dtype = before.dtype;
        tensor.shape = before.shape;
        tensor.stride = before.stride;
        tensor.offset = before.offset + (storage == into.flat ? begin / ItemSize(before.dtype) : 0);
        into.tensors.emplace(id, whole);
        if (wanted(id)) outputs.push_back(whole);
      }
      begin += Whole(parameter);
    }
    out_.Emit(IsFirst() ? "_use_unsharded_views" : "split_with_sizes_copy", phase, unit.name, {into.flat_tensor},
              outputs);
  }

  void GatherForward(std::size_t u) {
    if (units_.units[u].parameters.empty()) return;
    Gathered& into = forward_[u];
    GatherFlat(u, into, Phase::kForward);
    if (before_.valid() && !IsFirst()) {
      out_.graph().storages[before_.index()].released_after = OpId(out_.next().index() - 1);
    }
    CopyOut(u, into, Phase::kForward,
            [&](TensorId id) { return !yielded_in_forward_.contains(id) && !yielded_in_backward_.contains(id); });
    before_ = into.flat;
  }

  void EndForward(std::size_t u) {
    const Unit& unit = units_.units[u];
    if (StaysGathered(unit, layout_)) return;
    const OpId last(out_.next().index() - 1);
    for (const StorageId storage : forward_[u].storages) out_.graph().storages[storage.index()].released_after = last;
    if (IsFirst() && forward_[u].flat.valid()) {
      out_.graph().storages[forward_[u].flat.index()].released_after = last;
    }
  }

  // A unit is known to be needed next by its forward pass, which a reentrant checkpoint runs without gradients: the
  // first FSDP then waits until it runs again.
  bool GathersEarly() const { return !(IsFirst() && layout_.reentrant); }

  // What backward needs first is gathered when it begins.
  void BeginBackward() {
    if (pass().backward_order.empty() || !GathersEarly()) return;
    const std::size_t first = pass().backward_order.front();
    GatherFlat(first, backward_[first], Phase::kBackward);
  }

  // A unit's parameters go when its backward has ended, not with their last use.
  void EndBackward(std::size_t u) {
    const OpId last(out_.next().index() - 1);
    for (Gathered* held : {&forward_[u], &backward_[u]}) {
      const bool ends_here = held == &backward_[u] || StaysGathered(units_.units[u], layout_);
      if (!ends_here) continue;
      for (const StorageId storage : held->storages) out_.graph().storages[storage.index()].released_after = last;
      if (IsFirst() && held->flat.valid()) {
        out_.graph().storages[held->flat.index()].released_after = last;
      }
    }
  }

  void GatherBackward(std::size_t u) {
    const std::vector<std::size_t>& order = pass().backward_order;
    const auto place = std::ranges::find(order, u);
    if (!backward_[u].flat.valid()) GatherFlat(u, backward_[u], Phase::kBackward);
    CopyOut(u, backward_[u], Phase::kBackward,
            [&](TensorId id) { return read_in_backward_.contains(id) && !yielded_in_backward_.contains(id); });
    if (GathersEarly() && place + 1 != order.end() && !backward_[*(place + 1)].flat.valid()) {
      GatherFlat(*(place + 1), backward_[*(place + 1)], Phase::kBackward);
    }
  }

  bool Passes(StorageId storage) const {
    const StorageKind kind = from_.storage(storage).kind;
    return kind == StorageKind::kActivation || kind == StorageKind::kTemporary;
  }

  // Of each frozen block what goes into it.
  void HoldInputs(const UnitsPass& pass) {
    IdSet<StorageId> made(from_.storages.size());
    std::size_t next = pass.begin;
    std::vector<const Unit*> order;
    for (const Unit& unit : pass.units) {
      if (!unit.trained && !unit.name.empty() && unit.InForward() && unit.InBackward()) order.push_back(&unit);
    }
    std::sort(order.begin(), order.end(),
              [](const Unit* a, const Unit* b) { return a->forward_begin < b->forward_begin; });
    for (const Unit* unit : order) {
      for (; next < unit->forward_begin.index(); ++next) {
        for (const TensorId id : from_.ops[next].outputs) made.insert(from_.tensor(id).storage);
      }
      for (std::size_t i = unit->forward_begin.index(); i < unit->forward_end.index(); ++i) {
        for (const TensorId id : from_.ops[i].inputs) {
          const StorageId storage = from_.tensor(id).storage;
          if (Passes(storage) && made.contains(storage)) Hold(storage, pass.last_backward);
        }
      }
      holding_at_.emplace(unit->backward_begin, static_cast<std::size_t>(unit - pass.units.data()));
    }
  }

  // The gradients that a frozen block hands to the one before it are held too, so that block cannot add to them where
  // they lie: it makes new ones.
  void KeepGradients(OpId old, const std::vector<TensorId>& mutated, const std::vector<TensorId>& outputs) {
    const Unit& unit = pass().units[*holding_];
    for (const TensorId id : mutated) {
      const StorageId storage = from_.tensor(id).storage;
      const auto version = version_of_.find(storage);
      const StorageId now = version == version_of_.end() ? storage : version->second;
      const bool is_new = made_at_.contains(now) && made_at_.at(now) >= holds_from_;
      if (!Passes(storage) || is_new || outputs.size() != 1) continue;
      const TensorId result = outputs.front();
      if (from_.tensor(result).storage != storage) continue;
      if (version == version_of_.end()) {
        out_.graph().storages[storage.index()].released_after = OpId(unit.backward_end.index() - 1);
      }
      const StorageId fresh = out_.NewStorage(from_.storage(storage).bytes, StorageKind::kTemporary, "");
      version_of_[storage] = fresh;
      made_at_[fresh] = OpId(out_.next().index() - 1);
      version_tensor_[result] = out_.Rebase(result, fresh);
      Op& changed = out_.graph().ops.back();
      changed.outputs = {version_tensor_.at(result)};
      changed.mutated.clear();
      if (changed.kind.ends_with('_')) changed.kind.pop_back();
      held_.push_back(fresh);
    }
    const Op& copied = out_.graph().ops.back();
    std::set<StorageId> given;
    for (const TensorId id : copied.inputs) given.insert(out_.graph().tensor(id).storage);
    for (const TensorId id : copied.outputs) {
      const StorageId storage = out_.graph().tensor(id).storage;
      if (!given.contains(storage)) made_at_.emplace(storage, OpId(out_.next().index() - 1));
    }
    if (old.index() + 1 == unit.backward_end.index()) holding_.reset();
  }

  // To the end of backward; the storage is one of the old graph.
  void Hold(StorageId storage, OpId last_backward) {
    out_.graph().storages[storage.index()].released_after = last_backward;
  }

  // Computation goes on when the unit reduced last is. The second FSDP has held what was reduced until then.
  void WaitForReduced() {
    const OpId wait =
        out_.Emit("wait_tensor", Phase::kBackward, "", {shards_}, {}, Stream::kCompute, /*mutated=*/{shards_});
    if (!IsFirst()) out_.graph().storages[reduced_.index()].released_after = wait;
  }

  void FinishBackward() {
    if (reduced_.valid()) WaitForReduced();
    const OpId last(out_.next().index() - 1);
    for (const StorageId storage : std::exchange(held_, {})) {
      out_.graph().storages[storage.index()].released_after = last;
    }
    for (std::size_t u = 0; u < units_.units.size(); ++u) {
      const Unit& unit = units_.units[u];
      if (unit.trained || !StaysGathered(unit, layout_)) continue;
      for (const StorageId storage : forward_[u].storages) out_.graph().storages[storage.index()].released_after = last;
      if (IsFirst() && forward_[u].flat.valid()) out_.graph().storages[forward_[u].flat.index()].released_after = last;
    }
  }

  void Copy(OpId old) {
    const Phase phase = from_.op(old).phase;
    if (!holding_at_.empty()) {
      for (const TensorId id : from_.op(old).outputs) {
        if (!version_of_.contains(from_.tensor(id).storage)) seen_.insert(id);
      }
    }
    out_.Copy(old, [&](TensorId id) {
      const StorageId storage = from_.tensor(id).storage;
      if (phase == Phase::kUpdate) {
        const auto shard = gradient_shard_.find(id);
        return shard == gradient_shard_.end() ? id : shard->second;
      }
      if (const auto moved = Versioned(id); moved.valid()) return moved;
      if (from_.storage(storage).kind != StorageKind::kParameter) return id;
      const auto unit = units_.unit_of.find(storage);
      if (unit == units_.unit_of.end()) return id;
      const Gathered& backward = backward_[unit->second];
      if (phase == Phase::kBackward && !backward.tensors.empty()) return backward.tensors.at(id);
      const auto found = forward_[unit->second].tensors.find(id);
      return found == forward_[unit->second].tensors.end() ? id : found->second;
    });
  }

  // The tensor on the storage that has taken the place of its own; invalid: none has.
  TensorId Versioned(TensorId id) {
    if (version_of_.empty()) return TensorId();
    const auto known = version_tensor_.find(id);
    if (known != version_tensor_.end()) return known->second;
    const auto version = version_of_.find(from_.tensor(id).storage);
    if (version == version_of_.end() || seen_.contains(id)) return TensorId();
    return version_tensor_.emplace(id, out_.Rebase(id, version->second)).first->second;
  }

  // Gradients of a stage add up over the microbatches, whole. They are reduced behind the last: those of what lies in
  // no block first, as that is the outermost module.
  void ReduceAll() {
    for (const bool blocks : {false, true}) {
      for (std::size_t u = 0; u < units_.units.size(); ++u) {
        if (units_.units[u].trained && units_.units[u].name.empty() != blocks) EndUnit(u);
      }
    }
  }

  // A unit's gradients of one pass, and where the shard of each begins.
  struct Gradients {
    std::vector<TensorId> whole;
    std::vector<std::pair<StorageId, std::int64_t>> offsets;
    std::int64_t elements = 0;  // of all shards of one rank
    DType dtype = DType::kFloat32;
  };

  Gradients GradientsOf(std::size_t u) {
    Gradients found;
    for (const StorageId parameter : units_.units[u].parameters) {
      const auto gradient = units_.gradient_of.find(parameter);
      if (gradient == units_.gradient_of.end()) continue;
      const auto fresh = fresh_.find(gradient->second);
      found.whole.push_back(fresh == fresh_.end() ? tensors_of_[gradient->second].front() : fresh->second);
      found.offsets.emplace_back(gradient->second, found.elements);
      found.elements += Whole(parameter) / ranks_ / ItemSize(from_.tensor(tensors_of_[parameter].front()).dtype);
      Storage& storage = out_.graph().storages[gradient->second.index()];
      storage.kind = StorageKind::kTemporary;
      storage.released_after = OpId();
      storage.name.clear();
    }
    if (!found.whole.empty()) found.dtype = from_.tensor(found.whole.front()).dtype;
    return found;
  }

  // Its backward has ended: gradients are reduced, or wait for those of the next batch.
  void EndUnit(std::size_t u) {
    EndBackward(u);
    const Unit& unit = units_.units[u];
    const Gradients gradients = GradientsOf(u);
    if (gradients.whole.empty()) return;
    const bool reduces = IsLastPass() || layout_.reduces_each_batch;
    if (!reduces && !IsFirst()) return;
    TensorId flat = out_.FlatTensor(
        out_.NewStorage(gradients.elements * ItemSize(gradients.dtype) * ranks_, StorageKind::kTemporary, ""),
        gradients.dtype);
    if (reduced_.valid() && !IsFirst()) WaitForReduced();
    out_.Emit(IsFirst() ? "cat" : "_chunk_cat", Phase::kBackward, unit.name, gradients.whole, {flat});
    if (IsFirst() && !layout_.reduces_each_batch) {
      const auto [sum, is_first] = sums_.try_emplace(u, flat);
      if (!is_first) Add(sum->second, flat, unit.name, Stream::kCompute);
      flat = sum->second;
    }
    if (reduces) Reduce(u, gradients, flat);
  }

  void Add(TensorId sum, TensorId by, const std::string& layer, Stream stream) {
    out_.Emit("add_", Phase::kBackward, layer, {sum, by}, {}, stream, {sum});
  }

  // Gradients in one buffer, summed over the ranks, each keeping its part. Shards of a later batch are added.
  void Reduce(std::size_t u, const Gradients& gradients, TensorId flat) {
    const Unit& unit = units_.units[u];
    const DType dtype = gradients.dtype, shard_dtype = ShardType(dtype, layout_, true);
    const Bytes reduced = gradients.elements * ItemSize(dtype);  // this rank's part
    const auto sum = shard_sums_.find(u);
    const bool is_first = sum == shard_sums_.end();
    const StorageId output = out_.NewStorage(gradients.elements * ItemSize(shard_dtype),
                                             is_first ? StorageKind::kGradient : StorageKind::kTemporary,
                                             is_first ? unit.name + ".grad" : "");
    const TensorId flat_output = out_.FlatTensor(output, shard_dtype);
    std::vector<TensorId> outputs = {flat_output};
    if (is_first) ShardGradients(gradients, output, outputs);
    const Bytes moved = reduced * (ranks_ - 1);
    if (shard_dtype == dtype) {
      out_.EmitCollective("reduce_scatter_tensor", Phase::kBackward, unit.name, {flat}, outputs, moved, Stream::kReduce,
                          DataGroup(layout_));
    } else {
      const TensorId part = out_.FlatTensor(out_.NewStorage(reduced, StorageKind::kTemporary, ""), dtype);
      out_.EmitCollective("reduce_scatter_tensor", Phase::kBackward, unit.name, {flat}, {part}, moved, Stream::kReduce,
                          DataGroup(layout_));
      out_.Emit("_to_copy", Phase::kBackward, unit.name, {part}, outputs, Stream::kReduce);
    }
    if (is_first) {
      shard_sums_.emplace(u, flat_output);
    } else {
      Add(sum->second, flat_output, unit.name, Stream::kReduce);
    }
    reduced_ = out_.graph().tensor(flat).storage;
    shards_ = is_first ? flat_output : sum->second;
  }

  // The tensors that the update reads, on the storage of the shards.
  void ShardGradients(const Gradients& gradients, StorageId output, std::vector<TensorId>& outputs) {
    for (const auto& [gradient, offset] : gradients.offsets) {
      for (const TensorId id : tensors_of_[gradient]) {
        if (!in_update_.contains(id)) continue;
        const TensorId shard = out_.Rebase(id, output);
        Tensor& tensor = out_.graph().tensors[shard.index()];
        tensor.shape = ShardOf(tensor.shape, ranks_);
        for (std::size_t i = tensor.shape.size(), step = 1; i-- > 0;) {
          tensor.stride[i] = static_cast<std::int64_t>(step);
          step *= static_cast<std::size_t>(std::max<std::int64_t>(tensor.shape[i], 1));
        }
        tensor.dtype = ShardType(tensor.dtype, layout_, true);
        tensor.offset = offset;
        gradient_shard_.emplace(id, shard);
        if (!yielded_in_update_.contains(id)) outputs.push_back(shard);
      }
    }
  }

  TrainingGraph from_;  // without the ops that are copied already
  const Layout layout_;
  const std::int64_t ranks_;
  Units units_;
  UnitSchedule schedule_;
  Rewriter out_;
  std::map<StorageId, std::vector<TensorId>> tensors_of_;  // of the old graph, by parameter and gradient
  IdSet<TensorId> read_in_backward_, yielded_in_backward_, yielded_in_forward_, in_update_, yielded_in_update_;
  std::size_t now_ = 0;                         // the pass at hand
  std::map<OpId, AddedGradient> added_;         // of the old graph: ops that units do as a whole
  std::map<StorageId, TensorId> fresh_;         // of the pass at hand, by gradient
  std::map<std::size_t, TensorId> sums_;        // by unit: flat gradients of all batches so far
  std::map<std::size_t, TensorId> shard_sums_;  // likewise, reduced
  std::vector<Gathered> forward_, backward_;    // by unit, in this pass
  std::map<TensorId, TensorId> gradient_shard_;
  bool backward_begun_ = false;
  // ---- Of frozen blocks that a reentrant checkpoint runs again, in the first FSDP
  UnitPlaces holding_at_;
  std::optional<std::size_t> holding_;         // the unit that runs backward
  OpId holds_from_;                            // its first op in the new graph
  std::map<StorageId, StorageId> version_of_;  // by storage of the old graph: what has taken its place
  std::map<TensorId, TensorId> version_tensor_;
  std::map<StorageId, OpId> made_at_;  // by storage: the new graph's op
  IdSet<TensorId> seen_;               // of the old graph: made before their storage was replaced
  std::vector<StorageId> held_;        // to the end of backward
  StorageId before_;                   // the flat buffer of the unit gathered last, in forward
  StorageId reduced_;                  // the flat buffer of the unit reduced last
  TensorId shards_;                    // and what it was reduced to
};

}  // namespace

TrainingGraph WithFsdp(TrainingGraph graph, const Layout& layout) { return Fsdp(std::move(graph), layout).Run(); }

}  // namespace ebbtide::parallel
