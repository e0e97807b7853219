// A stage of a pipeline: some of the model's blocks, and what lies before the first or behind the last of all.
//
// The step of a microbatch is cut between blocks. Each microbatch has tensors of its own; parameters, gradients and
// state are shared, and gradients of later microbatches are added to those of the first. What comes from another stage
// is received into memory that is made for it and lives until its last use; what a stage hands on lives until it is
// sent, as in torch's PipelineStage; under DDP until its own backward begins. The last stage keeps what the model
// returned of each microbatch until the next step, and returns all of it as one tensor; the losses, which it keeps to
// the end of the passes, refer to what it received. What is computed of no parameter (positions, masks) every stage
// computes by itself.
#include "parallel/pp.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/id_set.h"
#include "parallel/pp_update.h"
#include "parallel/rank.h"
#include "parallel/rewriter.h"
#include "parallel/units.h"

namespace ebbtide::parallel {
namespace {

using Ops = std::vector<std::size_t>;  // of the old graph, in order

class Pipeline {
 public:
  Pipeline(const TrainingGraph& graph, const Layout& layout)
      : from_(graph), layout_(layout), parts_(layout.pp * layout.chunks), out_(graph) {}

  Result<TrainingGraph> Run() && {
    EBB_RETURN_IF_ERROR(FindParts());
    FindMakers();
    for (std::int64_t chunk = 0; chunk < layout_.chunks; ++chunk) TakePart(chunk * layout_.pp + layout_.stage);
    for (const PipelineAction& action : PipelineOrder(layout_)) {
      const std::int64_t part = action.chunk * layout_.pp + layout_.stage;
      if (action.forward) {
        Forward(part, action.microbatch);
      } else {
        Backward(part, action.microbatch);
      }
    }
    const std::vector<StorageId> returned = MergeReturned();
    Update();
    for (const StorageId storage : returned) out_.graph().storages[storage.index()].released_after = Last();
    Outputs();
    return std::move(out_).Take();
  }

 private:
  struct Place {
    std::int64_t part, microbatch;
    auto operator<=>(const Place&) const = default;
  };
  struct Part {
    Ops forward, backward;
    std::set<std::size_t> own;                             // both of them
    std::vector<TensorId> received, received_in_backward;  // made elsewhere, read here
    std::vector<TensorId> sent, sent_in_backward;          // made here, read elsewhere
  };

  // ---- Which op is of which part
  Status FindParts() {
    const Units units = FindUnits(from_);
    std::vector<const Unit*> blocks;
    for (const Unit& unit : units.units) {
      if (!unit.name.empty() && unit.InForward()) blocks.push_back(&unit);
    }
    std::sort(blocks.begin(), blocks.end(),
              [](const Unit* a, const Unit* b) { return a->forward_begin < b->forward_begin; });
    const auto count = static_cast<std::int64_t>(blocks.size());
    if (count < parts_) {
      return Fail("--pp {}: expected at most as many stages as the model has blocks, {}", parts_, count);
    }
    std::map<std::string, std::int64_t> part_of;
    for (std::int64_t i = 0; i < count; ++i) part_of[blocks[static_cast<std::size_t>(i)]->name] = i * parts_ / count;
    part_.assign(from_.ops.size(), 0);
    for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
      std::size_t last_in_block = 0;
      for (std::size_t i = 0; i < from_.ops.size(); ++i) {
        if (from_.ops[i].phase == phase && part_of.contains(BlockOf(from_.ops[i].layer + "."))) last_in_block = i;
      }
      const bool forward = phase == Phase::kForward;
      std::int64_t now = forward ? 0 : parts_ - 1;
      for (std::size_t i = 0; i < from_.ops.size(); ++i) {
        if (from_.ops[i].phase != phase) continue;
        const auto part = part_of.find(BlockOf(from_.ops[i].layer + "."));
        if (part != part_of.end()) now = part->second;
        part_[i] = i > last_in_block ? (forward ? parts_ - 1 : 0) : now;
      }
    }
    return CheckTies();
  }

  // Stages would have to add up their gradients of a parameter that several of them read.
  Status CheckTies() const {
    std::map<StorageId, std::int64_t> rank_of;
    for (std::size_t i = 0; i < from_.ops.size(); ++i) {
      if (from_.ops[i].phase == Phase::kUpdate) continue;
      for (const TensorId id : from_.ops[i].inputs) {
        if (from_.storage_of(id).kind != StorageKind::kParameter) continue;
        const std::int64_t rank = part_[i] % layout_.pp;
        if (rank_of.emplace(from_.tensor(id).storage, rank).first->second == rank) continue;
        return Fail(
            "--pp: {} is read by more than one stage: tied parameters are not modelled; `ebbtide dryrun --gpus` "
            "runs any program",
            from_.storage_of(id).name);
      }
    }
    return {};
  }

  static bool Passes(StorageKind kind) { return kind == StorageKind::kActivation || kind == StorageKind::kTemporary; }

  void FindMakers() {
    maker_.assign(from_.tensors.size(), from_.ops.size());
    learnt_.assign(from_.storages.size(), false);
    for (std::size_t i = 0; i < from_.ops.size(); ++i) {
      const Op& op = from_.ops[i];
      bool learnt = false;
      for (const TensorId id : op.inputs) {
        learnt |= from_.storage_of(id).kind == StorageKind::kParameter || learnt_[from_.tensor(id).storage.index()];
      }
      for (const TensorId id : op.outputs) {
        maker_[id.index()] = i;
        if (learnt) learnt_[from_.tensor(id).storage.index()] = true;
      }
    }
  }

  bool IsShared(std::size_t op) const {
    if (from_.ops[op].phase != Phase::kForward || !from_.ops[op].mutated.empty()) return false;
    return std::ranges::none_of(from_.ops[op].outputs,
                                [&](TensorId id) { return learnt_[from_.tensor(id).storage.index()]; });
  }

  // The part's ops, with what it computes by itself of others' shared ones.
  void TakePart(std::int64_t number) {
    Part& part = own_[number];
    std::set<std::size_t> wanted;
    for (std::size_t i = from_.ops.size(); i-- > 0;) {
      const Op& op = from_.ops[i];
      if (op.phase == Phase::kUpdate) continue;
      const bool own = part_[i] == number && !IsShared(i);
      if (!own && !wanted.contains(i)) continue;
      part.own.insert(i);
      for (const TensorId id : op.inputs) {
        const std::size_t maker = maker_[id.index()];
        if (maker < from_.ops.size() && IsShared(maker)) wanted.insert(maker);
      }
    }
    for (const std::size_t i : part.own)
      (from_.ops[i].phase == Phase::kForward ? part.forward : part.backward).push_back(i);
    std::set<TensorId> received, sent;
    for (std::size_t i = 0; i < from_.ops.size(); ++i) {
      if (from_.ops[i].phase == Phase::kUpdate) continue;
      for (const TensorId id : from_.ops[i].inputs) {
        const std::size_t maker = maker_[id.index()];
        if (maker == from_.ops.size() || !Passes(from_.storage_of(id).kind)) continue;
        const bool made_here = part.own.contains(maker), read_here = part.own.contains(i);
        if (read_here && !made_here) received.insert(id);
        if (made_here && !read_here && !IsShared(maker) && part_[i] != number) sent.insert(id);
      }
    }
    const auto divide = [&](const std::set<TensorId>& all, std::vector<TensorId>& forward,
                            std::vector<TensorId>& back) {
      for (const TensorId id : all) {
        (from_.ops[maker_[id.index()]].phase == Phase::kForward ? forward : back).push_back(id);
      }
    };
    divide(received, part.received, part.received_in_backward);
    divide(sent, part.sent, part.sent_in_backward);
  }

  // ---- Tensors of one microbatch
  bool IsCloned(StorageId storage, const Place& place) const {
    const StorageKind kind = from_.storage(storage).kind;
    if (kind == StorageKind::kInput) return place.microbatch > 0;
    if (kind == StorageKind::kGradient) return place.microbatch > 0;
    return Passes(kind);
  }

  StorageId CloneOf(StorageId storage, const Place& place) {
    if (!IsCloned(storage, place)) return storage;
    const auto [found, is_new] = clones_.try_emplace({place, storage});
    if (is_new) {
      const Storage& old = from_.storage(storage);
      const bool is_sum = old.kind == StorageKind::kGradient;
      found->second =
          out_.NewStorage(old.bytes, is_sum ? StorageKind::kTemporary : old.kind,
                          is_sum || old.name.empty() ? "" : old.name + "." + std::to_string(place.microbatch));
    }
    return found->second;
  }

  TensorId At(TensorId id, const Place& place) {
    const StorageId storage = from_.tensor(id).storage;
    // What an op makes is made by each pass: a view of a parameter too.
    const bool is_made = maker_[id.index()] < from_.ops.size();
    if (!IsCloned(storage, place) && (place.microbatch == 0 || !is_made)) return id;
    const auto [found, is_new] = tensors_.try_emplace({place, id});
    if (is_new) found->second = out_.Rebase(id, CloneOf(storage, place));
    return found->second;
  }

  std::vector<TensorId> At(const std::vector<TensorId>& ids, const Place& place) {
    std::vector<TensorId> out;
    for (const TensorId id : ids) out.push_back(At(id, place));
    return out;
  }

  void Copy(std::size_t old, const Place& place) {
    copied_[{place, old}] = out_.Copy(OpId(old), [&](TensorId id) { return At(id, place); });
  }

  // Stages are the outermost axis.
  RankGroup Neighbour(const char* name) const { return {name, 2, 2 * layout_.data_ranks() * layout_.tp}; }

  void Receive(const std::vector<TensorId>& ids, Phase phase, const Place& place, const char* from) {
    std::map<StorageId, std::vector<TensorId>> by_storage;
    for (const TensorId id : ids) by_storage[from_.tensor(id).storage].push_back(id);
    for (const auto& [storage, tensors] : by_storage) {
      out_.EmitCollective("recv", phase, "pp", {}, At(tensors, place), from_.storage(storage).bytes, Stream::kCompute,
                          Neighbour(from));
    }
  }

  void Send(const std::vector<TensorId>& ids, Phase phase, const Place& place, const char* to) {
    std::map<StorageId, TensorId> by_storage;  // the last tensor of each: it has the last contents
    for (const TensorId id : ids) by_storage[from_.tensor(id).storage] = id;
    for (const auto& [storage, id] : by_storage) {
      out_.EmitCollective("send", phase, "pp", {At(id, place)}, {}, from_.storage(storage).bytes, Stream::kCompute,
                          Neighbour(to));
    }
  }

  void Forward(std::int64_t number, std::int64_t microbatch) {
    const Part& part = own_.at(number);
    const Place place{number, microbatch};
    Receive(part.received, Phase::kForward, place, "pp before");
    for (const std::size_t i : part.forward) Copy(i, place);
    EndSends(/*forward=*/true);
    Send(part.sent, Phase::kForward, place, "pp behind");
    forward_end_[place] = Last();
    if (!KeepsSent()) NoteSent(part.sent, place, /*forward=*/true);
  }

  void Backward(std::int64_t number, std::int64_t microbatch) {
    const Part& part = own_.at(number);
    const Place place{number, microbatch};
    for (const TensorId id : part.sent) {
      if (!KeepsSent()) break;
      out_.graph().storages[CloneOf(from_.tensor(id).storage, place).index()].released_after = out_.next();
    }
    Receive(part.received_in_backward, Phase::kBackward, place, "pp behind");
    std::map<StorageId, std::size_t> last_touch;
    std::map<StorageId, TensorId> last_tensor;
    for (const std::size_t i : part.backward) {
      for (const auto* list : {&from_.ops[i].inputs, &from_.ops[i].outputs}) {
        for (const TensorId id : *list) {
          if (from_.storage_of(id).kind != StorageKind::kGradient) continue;
          last_touch[from_.tensor(id).storage] = i;
          last_tensor[from_.tensor(id).storage] = id;
        }
      }
    }
    for (const std::size_t i : part.backward) {
      Copy(i, place);
      if (microbatch == 0) continue;
      for (const auto& [storage, touch] : last_touch) {
        if (touch != i) continue;
        const TensorId sum = last_tensor.at(storage);
        out_.Emit("add_", Phase::kBackward, from_.ops[i].layer, {sum, At(sum, place)}, {}, Stream::kCompute, {sum});
      }
    }
    EndSends(/*forward=*/false);
    Send(part.sent_in_backward, Phase::kBackward, place, "pp before");
    Release(part, place);
    NoteSent(part.sent_in_backward, place, /*forward=*/false);
  }

  // DDP's reducer needs what a stage has handed on when backward begins; else autograd's node stands for it.
  bool KeepsSent() const { return layout_.data == DataParallel::kDdp && layout_.data_ranks() > 1; }

  // What is on its way to another stage lives until it was waited for: behind the next pass, if that goes the same way;
  // else before it.
  void NoteSent(const std::vector<TensorId>& ids, const Place& place, bool forward) {
    sent_.clear();
    for (const TensorId id : ids) sent_.push_back(CloneOf(from_.tensor(id).storage, place));
    sent_forward_ = forward;
  }
  void EndSends(bool forward) {
    if (forward == sent_forward_) {
      for (const StorageId storage : sent_) out_.graph().storages[storage.index()].released_after = Last();
    }
    sent_.clear();
  }

  OpId Last() const { return OpId(out_.graph().ops.size() - 1); }

  // When references go, by the new places of the ops that they go with.
  void Release(const Part& part, const Place& place) {
    for (const auto& [key, clone] : clones_) {
      // A later microbatch's gradient goes when it was added.
      if (key.first != place || from_.storage(key.second).kind == StorageKind::kGradient) continue;
      const OpId old = from_.storage(key.second).released_after;
      Storage& storage = out_.graph().storages[clone.index()];
      if (!old.valid() || storage.released_after.valid()) continue;
      if (part.own.contains(old.index())) {
        storage.released_after = copied_.at({place, old.index()});
      } else {
        storage.released_after = from_.op(old).phase == Phase::kForward ? forward_end_.at(place) : Last();
      }
    }
  }

  // ---- The last stage
  // What the model returns: the last result before the layer called "loss", or where there is no such layer the last
  // within a named one.
  std::optional<TensorId> Returned() const {
    const bool names_loss = std::ranges::any_of(from_.ops, [](const Op& op) { return op.layer == "loss"; });
    std::optional<TensorId> returned;
    for (const Op& op : from_.ops) {
      if (op.phase != Phase::kForward) break;
      const bool is_models = names_loss ? op.layer != "loss" : !op.layer.empty();
      if (is_models && !op.outputs.empty()) returned = op.outputs.front();
    }
    return returned;
  }

  // Behind the passes, and the storages of what was returned of each microbatch. Before it, what was received goes.
  std::vector<StorageId> MergeReturned() {
    const std::int64_t last = parts_ - 1;
    std::vector<StorageId> storages;
    if (last % layout_.pp != layout_.stage) return storages;
    const std::optional<TensorId> returned = Returned();
    std::vector<TensorId> parts;
    Bytes bytes = 0;
    for (std::int64_t i = 0; i < layout_.passes(); ++i) {
      const Place place{last, i};
      for (const TensorId id : own_.at(last).received) {
        out_.graph().storages[CloneOf(from_.tensor(id).storage, place).index()].released_after = Last();
      }
      if (!returned || !Passes(from_.storage_of(*returned).kind)) continue;
      parts.push_back(At(*returned, place));
      storages.push_back(CloneOf(from_.tensor(*returned).storage, place));
      bytes += from_.storage_of(*returned).bytes;
    }
    if (parts.empty()) return storages;
    const StorageId merged = out_.NewStorage(bytes, StorageKind::kTemporary, "");
    out_.Emit("cat", Phase::kBackward, "pp", parts, {out_.FlatTensor(merged, from_.tensor(*returned).dtype)});
    return storages;
  }

  // The update is of this rank's parameters alone.
  void Update() {
    IdSet<StorageId> touched(from_.storages.size());
    for (const auto& [number, part] : own_) {
      for (const std::size_t i : part.own) {
        for (const auto* list : {&from_.ops[i].inputs, &from_.ops[i].outputs}) {
          for (const TensorId id : *list) touched.insert(from_.tensor(id).storage);
        }
      }
    }
    CopyStageUpdate(out_, touched);
  }

  void Outputs() {
    std::vector<TensorId> outputs;
    for (const TensorId id : from_.outputs) {
      for (const auto& [number, part] : own_) {
        if (maker_[id.index()] == from_.ops.size() || !part.own.contains(maker_[id.index()])) continue;
        outputs.push_back(At(id, {number, layout_.passes() - 1}));
        break;
      }
    }
    out_.graph().outputs = std::move(outputs);
  }

  const TrainingGraph& from_;
  const Layout layout_;
  const std::int64_t parts_;  // of the whole pipeline
  Rewriter out_;
  std::vector<std::int64_t> part_;    // by op
  std::vector<std::size_t> maker_;    // by tensor; the number of ops: none
  std::vector<bool> learnt_;          // by storage: a parameter had a part in it
  std::map<std::int64_t, Part> own_;  // by number
  std::map<std::pair<Place, StorageId>, StorageId> clones_;
  std::map<std::pair<Place, TensorId>, TensorId> tensors_;
  std::map<std::pair<Place, std::size_t>, OpId> copied_;
  std::map<Place, OpId> forward_end_;
  std::vector<StorageId> sent_;  // by the last pass
  bool sent_forward_ = true;     // which way
};

}  // namespace

Result<TrainingGraph> StageOf(const TrainingGraph& graph, const Layout& layout) {
  return Pipeline(graph, layout).Run();
}

}  // namespace ebbtide::parallel
