// Ranks that share every matrix. How parameters are divided follows from their names (split.h); how all else is follows
// op by op from that, in forward, in backward and in the update. Where ranks have to talk, a collective comes between:
//
//   a matrix divided by its results needs all tokens: what is divided along the sequence is gathered first, once for
//       all that read it, and what backward keeps of it is whole
//   one divided by its operands yields a summand on every rank: summands are added where something else reads them,
//       and divided along the sequence on the way (sequence parallel), or left whole
//   scores stay divided by classes up to the loss (loss parallel), or are gathered
//   adapters go with their matrix: they read what it has gathered; what their first factor yields beside a matrix
//       divided by operands is added and divided along the sequence, on which the second works
//
// An op that no rule is known for is refused when something divided comes to it.
#include <algorithm>
#include <map>
#include <set>

#include "graph/arguments.h"
#include "parallel/rank.h"
#include "parallel/rewriter.h"
#include "parallel/split.h"
#include "parallel/tp_rules.h"

namespace ebbtide::parallel {
namespace {

class Tensors {
 public:
  Tensors(const TrainingGraph& graph, const Layout& layout)
      : from_(graph), layout_(layout), ranks_(layout.tp), out_(graph), group_{"tp", layout.tp} {}

  Result<TrainingGraph> Run() && {
    EBB_RETURN_IF_ERROR(DivideParameters());
    for (std::size_t i = 0; i < from_.ops.size(); ++i) {
      const Op& op = from_.ops[i];
      EBB_RETURN_IF_ERROR(op.phase == Phase::kUpdate ? Update(i) : Pass(i));
    }
    return std::move(out_).Take();
  }

 private:
  Split Of(TensorId id) const {
    const auto found = splits_.find(id);
    return found == splits_.end() ? Split{} : found->second;
  }
  const Dims& Shape(TensorId id) const { return from_.tensor(id).shape; }

  tl::unexpected<Error> Refuse(const Op& op, const std::string& why) const {
    return Fail("--tp {}: {} of {}: {}; `ebbtide dryrun --gpus` runs any program", ranks_, op.kind,
                op.layer.empty() ? "the loss" : op.layer, why);
  }

  // ---- What is there before the step
  Status DivideParameters() {
    bool any = false;
    for (std::size_t i = 0; i < from_.tensors.size(); ++i) {
      const Storage& storage = from_.storage_of(TensorId(i));
      if (storage.kind != StorageKind::kParameter) continue;
      if (!seen_.insert(from_.tensors[i].storage).second) continue;
      const Split split = SplitOfParameter(storage.name, from_.tensors[i].shape);
      if (!split.divides()) continue;
      any = true;
      const std::optional<Tensor> cut = Cut(from_.tensors[i], split, ranks_);
      if (!cut) {
        return Fail("--tp {}: {}: expected a multiple of {} along axis {} of {}", ranks_, storage.name, ranks_,
                    split.axis, fmt::join(from_.tensors[i].shape, " x "));
      }
      Place(TensorId(i), split, *cut, from_.tensors[i].storage, true);
    }
    if (!any) {
      return Fail(
          "--tp: expected a model whose matrices are named as transformers' decoders name them (q_proj, o_proj, "
          "up_proj, down_proj); `ebbtide dryrun --gpus` runs any program");
    }
    return {};
  }

  // The tensor lies so from now on, on that storage, which it is the first of (`owns`) or a view of.
  void Place(TensorId id, const Split& split, Tensor cut, StorageId storage, bool owns) {
    cut.storage = storage;
    out_.graph().tensors[id.index()] = std::move(cut);
    splits_[id] = split;
    if (owns && split.divides()) {
      Bytes& bytes = out_.graph().storages[storage.index()].bytes;
      bytes = (bytes + ranks_ - 1) / ranks_;
    }
  }

  // ---- Talking
  // All of what is divided, in memory of its own; the same for all who ask.
  TensorId Gather(TensorId id, Phase phase, const std::string& layer) {
    if (const TensorId known = Gathered(id, phase, layer); known.valid()) return known;
    const Tensor& old = from_.tensor(Origin(id));
    const Bytes bytes = BytesOf(old);
    const StorageId storage =
        out_.NewStorage(bytes, phase == Phase::kForward ? StorageKind::kActivation : StorageKind::kTemporary, "");
    out_.graph().tensors.push_back(Contiguous(old, storage));
    const TensorId whole(out_.graph().tensors.size() - 1);
    out_.EmitCollective("all_gather_into_tensor", phase, layer, {id}, {whole}, bytes * (ranks_ - 1) / ranks_,
                        Stream::kCompute, group_);
    gathered_.emplace(id, whole);
    if (IsAllOfItsStorage(id)) gathered_storages_.emplace(out_.graph().tensor(id).storage, whole);
    splits_[whole] = {};
    return whole;
  }

  // What was gathered of it, or the same view of what was gathered of its storage; invalid: nothing was.
  TensorId Gathered(TensorId id, Phase phase, const std::string& layer) {
    const auto known = gathered_.find(id);
    if (known != gathered_.end()) return known->second;
    const auto storage = gathered_storages_.find(out_.graph().tensor(id).storage);
    if (storage == gathered_storages_.end() || !IsAllOfItsStorage(id)) return TensorId();
    const Tensor whole = out_.graph().tensor(storage->second);
    out_.graph().tensors.push_back(from_.tensor(Origin(id)));
    out_.graph().tensors.back().storage = whole.storage;
    const TensorId view(out_.graph().tensors.size() - 1);
    out_.Emit("view", phase, layer, {storage->second}, {view});
    splits_[view] = {};
    return gathered_.emplace(id, view).first->second;
  }

  bool IsAllOfItsStorage(TensorId id) const {
    const Tensor& old = from_.tensor(Origin(id));
    return old.offset == 0 && BytesOf(old) == from_.storage(old.storage).bytes;
  }

  // The sum of all summands: divided along the sequence, or whole where the summands lie.
  Result<TensorId> Sum(TensorId id, const Op& op) {
    if (const auto known = summed_.find(id); known != summed_.end()) return known->second;
    const Tensor& old = from_.tensor(Origin(id));
    const StorageId partial = out_.graph().tensor(id).storage;
    const Bytes bytes = out_.graph().storage(partial).bytes;
    const bool is_tokens = old.shape.size() >= 2 && from_.storage(old.storage).kind != StorageKind::kGradient;
    if (!layout_.sequence_parallel || !is_tokens) {
      out_.EmitCollective("all_reduce", op.phase, op.layer, {id}, {}, 2 * bytes * (ranks_ - 1) / ranks_,
                          Stream::kCompute, group_, {id});
      for (auto& [tensor, split] : splits_) {
        if (split.kind == SplitKind::kPartial && out_.graph().tensor(tensor).storage == partial) split = {};
      }
      return id;
    }
    const Split split{SplitKind::kSequence, old.shape.size() - 2};
    const std::optional<Tensor> cut = Cut(old, split, ranks_);
    if (!cut) return Refuse(op, fmt::format("{} tokens are no multiple of {}", old.shape[split.axis], ranks_));
    const auto made = scattered_.find(partial);
    if (made != scattered_.end()) {  // by another view of the summands
      out_.graph().tensors.push_back(Contiguous(*cut, made->second.first));
      const TensorId view(out_.graph().tensors.size() - 1);
      out_.Emit("view", op.phase, op.layer, {made->second.second}, {view});
      splits_[view] = split;
      origin_[view] = id;
      return summed_.emplace(id, view).first->second;
    }
    const StorageId storage = out_.NewStorage(BytesOf(*cut), from_.storage(old.storage).kind, "");
    out_.graph().tensors.push_back(Contiguous(*cut, storage));
    const TensorId sum(out_.graph().tensors.size() - 1);
    out_.EmitCollective("reduce_scatter_tensor", op.phase, op.layer, {id}, {sum}, bytes * (ranks_ - 1) / ranks_,
                        Stream::kCompute, group_);
    splits_[sum] = split;
    origin_[sum] = id;
    scattered_.emplace(partial, std::pair(storage, sum));
    return summed_.emplace(id, sum).first->second;
  }

  static Bytes BytesOf(const Tensor& tensor) {
    Bytes bytes = ItemSize(tensor.dtype);
    for (const std::int64_t dim : tensor.shape) bytes *= dim;
    return bytes;
  }

  static Tensor Contiguous(Tensor tensor, StorageId storage) {
    tensor.storage = storage;
    tensor.offset = 0;
    std::int64_t step = 1;
    for (std::size_t i = tensor.shape.size(); i-- > 0;) {
      tensor.stride[i] = step;
      step *= std::max<std::int64_t>(tensor.shape[i], 1);
    }
    return tensor;
  }

  // ---- One op of forward or backward
  Status Pass(std::size_t number) {
    const Op& op = from_.ops[number];
    const Rule rule = RuleOf(op.kind);
    std::map<TensorId, TensorId> given;  // by operand: what the op gets
    bool all_partial = true, any_divided = false;
    for (const TensorId id : op.inputs) {
      const Split split = Of(id);
      any_divided |= split.kind != SplitKind::kWhole;
      if (!Shape(id).empty() && from_.storage_of(id).kind != StorageKind::kParameter)
        all_partial &= split.kind == SplitKind::kPartial;
    }
    if (any_divided && rule == Rule::kUnknown) return Refuse(op, "no rule is known for it");
    const bool is_linear = rule == Rule::kReshape || rule == Rule::kAxes || op.kind == "add" || op.kind == "add_" ||
                           op.kind == "_to_copy" || op.kind == "clone" || IsMultiple(op);
    // Summands that were added already are read as their sum.
    const bool are_summands = std::ranges::none_of(op.inputs, [&](TensorId id) { return summed_.contains(id); });
    const bool keeps_summands =
        any_divided && are_summands && ((all_partial && is_linear) || KeepsSummandOfAdapter(op, rule));
    const bool stays_divided = IsOfTokensAlone(op, rule);
    for (const TensorId id : op.inputs) {
      TensorId now = id;
      if (Of(now).kind == SplitKind::kPartial && !keeps_summands) {
        EBB_ASSIGN_OR_RETURN(now, Sum(now, op));
      }
      if (Of(now).kind == SplitKind::kSequence && op.phase == Phase::kForward && ReadsGathered(op)) {
        if (const TensorId whole = Gathered(now, op.phase, op.layer); whole.valid()) now = whole;
      }
      const bool wants_whole =
          (rule == Rule::kProduct && !stays_divided) || rule == Rule::kLookupBackward || rule == Rule::kBatched;
      if (Of(now).kind == SplitKind::kSequence && wants_whole) now = Gather(now, op.phase, op.layer);
      const bool is_loss = rule == Rule::kLogSoftmax || rule == Rule::kLoss;
      if (is_loss && !layout_.loss_parallel && Of(now).kind == SplitKind::kFeatures)
        now = Gather(now, op.phase, op.layer);
      given[id] = now;
    }
    out_.Copy(OpId(number), [&](TensorId id) {
      const auto found = given.find(id);
      return found == given.end() ? id : found->second;
    });
    const OpId copied(out_.graph().ops.size() - 1);
    Divide(op, copied, any_divided);
    for (std::size_t k = 0; k < op.outputs.size(); ++k) {
      EBB_ASSIGN_OR_RETURN(const Split split, any_divided ? ResultSplit(op, rule, k, given) : Result<Split>(Split{}));
      EBB_RETURN_IF_ERROR(Make(op, op.outputs[k], split, given));
    }
    if (rule == Rule::kLogSoftmax && Of(op.outputs.front()).kind == SplitKind::kFeatures) ShareMaximum(op, copied);
    for (const TensorId id : op.outputs) {
      const bool is_gradient = from_.storage_of(id).kind == StorageKind::kGradient;
      if (is_gradient && Of(id).kind == SplitKind::kPartial) {
        EBB_RETURN_IF_ERROR(Sum(id, op));
      }
    }
    return {};
  }

  // By a number.
  static bool IsMultiple(const Op& op) { return (op.kind == "mul" || op.kind == "div") && op.inputs.size() == 1; }

  bool IsParameter(TensorId id) const { return from_.storage_of(id).kind == StorageKind::kParameter; }

  // What comes into a matrix divided by results, or into its adapter, is gathered once for all of it.
  static bool ReadsGathered(const Op& op) {
    return IsAdapter(op.layer) || RoleOf(op.layer + ".weight") == MatrixRole::kColumn;
  }

  // In backward of an adapter: a product with, or a mask on, one summand is a summand.
  bool KeepsSummandOfAdapter(const Op& op, Rule rule) const {
    if (op.phase != Phase::kBackward || !IsAdapter(op.layer)) return false;
    if (rule != Rule::kProduct && op.kind != "native_dropout_backward") return false;
    const auto is_partial = [&](TensorId id) { return Of(id).kind == SplitKind::kPartial; };
    return std::ranges::count_if(op.inputs, is_partial) == 1 &&
           std::ranges::none_of(op.inputs, [&](TensorId id) { return Of(id).divides(); });
  }

  // A product of an adapter's factor that every rank has whole with tokens that are divided, or of two such: tokens
  // stay divided.
  bool IsOfTokensAlone(const Op& op, Rule rule) const {
    if (rule != Rule::kProduct || !IsAdapter(op.layer)) return false;
    return std::ranges::all_of(op.inputs, [&](TensorId id) {
      const SplitKind kind = Of(id).kind;
      return IsParameter(id) ? kind == SplitKind::kWhole : kind == SplitKind::kSequence || kind == SplitKind::kPartial;
    });
  }

  // A share of the work.
  void Divide(const Op& op, OpId copied, bool any_divided) {
    Op& copy = out_.graph().ops[copied.index()];
    if (any_divided && op.flops > 0) copy.flops = op.flops / ranks_;
    if (any_divided) copy.workspace = op.workspace / ranks_;
  }

  // Every rank has some classes: the largest score and the sum are agreed on, of scores that are shifted meanwhile.
  void ShareMaximum(const Op& op, OpId copied) {
    const TensorId scores = op.outputs.front();
    const Bytes bytes = out_.graph().storage(out_.graph().tensor(scores).storage).bytes;
    out_.graph().ops[copied.index()].workspace += 2 * bytes;
    const Bytes rows = bytes / std::max<std::int64_t>(out_.graph().tensor(scores).shape.back(), 1);
    out_.EmitCollective("all_reduce", op.phase, op.layer, {scores}, {}, 4 * rows * (ranks_ - 1) / ranks_,
                        Stream::kCompute, group_, {scores});
  }

  // The tensor of the old graph that a sum stands for.
  TensorId Origin(TensorId id) const {
    const auto found = origin_.find(id);
    return found == origin_.end() ? id : found->second;
  }

  Result<Split> ResultSplit(const Op& op, Rule rule, std::size_t k, const std::map<TensorId, TensorId>& given) {
    const TensorId result = op.outputs[k];
    const Dims& to = Shape(result);
    const auto unclear = [&] { return Refuse(op, "how its result is divided cannot be told"); };
    const auto input = [&](std::size_t i) { return Of(given.at(op.inputs[i])); };
    if (rule == Rule::kProduct || rule == Rule::kBatched) return ProductSplit(op, rule, given);
    if (rule == Rule::kLookup) {
      return input(0).divides() ? Split{SplitKind::kPartial, 0} : Split{};
    }
    if (rule == Rule::kLookupBackward) return SplitOfGradient(result);
    if (rule == Rule::kLoss) return Split{};
    if (rule == Rule::kLossBackward) {
      const Split scores = input(1);
      return scores.kind == SplitKind::kFeatures ? scores : Split{};
    }
    Split found;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const Split split = input(i);
      if (split.kind == SplitKind::kWhole) continue;
      if (i > 0 && op.kind.find("_norm") != std::string::npos) continue;  // statistics lie as what they are of
      const Dims& from = Shape(op.inputs[i]);
      std::optional<Split> now = split;
      switch (rule) {
        case Rule::kElementwise:
        case Rule::kLogSoftmax: now = k == 0 || to.size() == from.size() ? Broadcast(split, from, to) : split; break;
        case Rule::kReshape: now = Reshaped(split, from, to); break;
        case Rule::kAxes: now = Permuted(op, split, from.size()); break;
        case Rule::kPlaces: now = InPlaceOfAxis(split, from, to); break;
        case Rule::kAttention: now = to.size() > split.axis ? std::optional(split) : std::optional(Split{}); break;
        default: return unclear();
      }
      if (!now) return unclear();
      if (found.kind != SplitKind::kWhole && !(found == *now) && now->kind != SplitKind::kWhole) return unclear();
      if (now->kind != SplitKind::kWhole) found = *now;
    }
    return found;
  }

  static std::optional<Split> Permuted(const Op& op, const Split& split, std::size_t axes) {
    if (!split.divides()) return split;
    const Dims order = AxisOrder(op, axes);
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (order[i] == static_cast<std::int64_t>(split.axis)) return Split{split.kind, i};
    }
    return std::nullopt;
  }

  Result<Split> ProductSplit(const Op& op, Rule rule, const std::map<TensorId, TensorId>& given) {
    // The two matrices are the last operands; a bias comes before them.
    std::vector<TensorId> matrices;
    for (const Argument& argument : op.arguments) {
      if (const auto* id = std::get_if<TensorId>(&argument.value); id != nullptr && id->valid())
        matrices.push_back(*id);
    }
    if (matrices.size() < 2) matrices.assign(op.inputs.begin(), op.inputs.end());
    if (matrices.size() == 1) matrices.push_back(matrices.front());
    const TensorId a = matrices[matrices.size() - 2], b = matrices.back();
    const Split left = Of(given.contains(a) ? given.at(a) : a), right = Of(given.contains(b) ? given.at(b) : b);
    const std::size_t first = rule == Rule::kBatched ? 1 : 0;
    if (first == 1 && (left.axis == 0 || right.axis == 0) && left.divides() && right.divides()) return left;
    if (left.kind == SplitKind::kPartial || right.kind == SplitKind::kPartial) return Split{SplitKind::kPartial, 0};
    const bool inner_left = left.divides() && left.axis == first + 1,
               inner_right = right.divides() && right.axis == first;
    if (inner_left && inner_right) return Split{SplitKind::kPartial, 0};
    if (inner_left || inner_right) return Refuse(op, "one of its operands is divided along what is summed over");
    if (left.divides() && right.divides()) return Refuse(op, "both of its operands are divided");
    if (left.divides()) return left;
    if (right.divides()) return Split{right.kind, first + 1};
    return Split{};
  }

  // As the parameter of its name.
  Split SplitOfGradient(TensorId id) const {
    std::string name = from_.storage_of(id).name;
    if (name.ends_with(".grad")) name.resize(name.size() - 5);
    return SplitOfParameter(name, Shape(id));
  }

  // The result in its place: a view goes with the operand that it is of.
  Status Make(const Op& op, TensorId result, const Split& split, const std::map<TensorId, TensorId>& given) {
    const Tensor& old = from_.tensor(result);
    const std::optional<Tensor> cut = Cut(old, split, ranks_);
    if (!cut) return Refuse(op, fmt::format("an axis of {} is no multiple of {}", old.shape[split.axis], ranks_));
    for (const TensorId id : op.inputs) {
      if (from_.tensor(id).storage != old.storage) continue;
      const TensorId base = given.at(id);
      const StorageId storage = out_.graph().tensor(base).storage;
      const bool own_place = storage == old.storage;
      Place(result, split, own_place ? *cut : Contiguous(*cut, storage), storage, false);
      if (std::ranges::find(op.mutated, id) != op.mutated.end()) Forget(base);
      return {};
    }
    Place(result, split, *cut, old.storage, true);
    return {};
  }

  // Its contents have changed: what was gathered or added of it is old.
  void Forget(TensorId id) {
    const StorageId storage = out_.graph().tensor(id).storage;
    const auto is_of = [&](const auto& entry) { return out_.graph().tensor(entry.first).storage == storage; };
    std::erase_if(gathered_, is_of);
    gathered_storages_.erase(storage);
    std::erase_if(summed_, is_of);
    scattered_.erase(storage);
  }

  // ---- The update: lists go side by side, and all of one parameter lies as it does
  Status Update(std::size_t number) {
    const Op& op = from_.ops[number];
    out_.Copy(OpId(number), [](TensorId id) { return id; });
    std::vector<const TensorList*> lists;
    for (const Argument& argument : op.arguments) {
      if (const auto* list = std::get_if<TensorList>(&argument.value)) lists.push_back(list);
    }
    if (lists.empty()) {
      Align(op.inputs, op.outputs);
      return {};
    }
    for (std::size_t i = 0; i < lists.front()->ids.size(); ++i) {
      std::vector<TensorId> side, result;
      for (const TensorList* list : lists) {
        if (i < list->ids.size()) side.push_back(list->ids[i]);
      }
      if (op.outputs.size() == lists.front()->ids.size()) result.push_back(op.outputs[i]);
      Align(side, result);
    }
    return {};
  }

  // Tensors of one shape lie alike; the first that is divided tells.
  void Align(const std::vector<TensorId>& inputs, const std::vector<TensorId>& outputs) {
    const auto divided = std::ranges::find_if(inputs, [&](TensorId id) { return id.valid() && Of(id).divides(); });
    if (divided == inputs.end()) return;
    const Split split = Of(*divided);
    const Dims shape = Shape(*divided);
    for (const auto* list : {&inputs, &outputs}) {
      for (const TensorId id : *list) {
        if (!id.valid() || Of(id).divides() || Shape(id) != shape) continue;
        const StorageId storage = from_.tensor(id).storage;
        const std::optional<Tensor> cut = Cut(from_.tensor(id), split, ranks_);
        if (cut) Place(id, split, *cut, storage, seen_.insert(storage).second);
      }
    }
  }

  const TrainingGraph& from_;
  const Layout layout_;
  const std::int64_t ranks_;
  Rewriter out_;
  const RankGroup group_;
  std::map<TensorId, Split> splits_;  // those that are not whole
  std::map<TensorId, TensorId> origin_;
  std::map<TensorId, TensorId> gathered_, summed_;
  std::map<StorageId, TensorId> gathered_storages_;                // by what is divided: all of it, gathered
  std::map<StorageId, std::pair<StorageId, TensorId>> scattered_;  // by the summands' storage: their sum's
  std::set<StorageId> seen_;                                       // whose size is settled
};

}  // namespace

Result<TrainingGraph> TensorParallel(const TrainingGraph& graph, const Layout& layout) {
  return Tensors(graph, layout).Run();
}

}  // namespace ebbtide::parallel
