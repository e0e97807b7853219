// Finds the blocks by the names of layers, and records each again when its backward first needs something of it.
#include "model/checkpoint.h"

#include <algorithm>
#include <string_view>

#include "model/patterns.h"
#include "model/saved.h"

namespace ebbtide::model {

namespace {

std::string_view BlockPath(const Builder& b, std::string_view layer) {
  const std::string& pattern = *b.options().checkpoint;
  if (!pattern.empty()) return MatchedPart(pattern, layer);
  for (std::size_t end = 0; end < layer.size();) {
    end = std::min(layer.find('.', end + 1), layer.size());
    if (b.IsBlock(layer.substr(0, end))) return layer.substr(0, end);
  }
  return {};
}

// torch stops as soon as it has the last tensor that the first run saved. An operand is saved before its op runs.
std::size_t EndOfRecomputation(const Builder& b, OpRange block) {
  for (std::size_t i = block.end; i-- > block.begin;) {
    switch (SavesOf(b, OpId(i))) {
      case Saves::kNothing: continue;
      case Saves::kOperands: return i;
      case Saves::kResults: return i + 1;
    }
  }
  return block.begin;
}

}  // namespace

std::vector<OpRange> CheckpointedBlocks(const Builder& b, std::size_t begin) {
  std::vector<OpRange> blocks;
  if (!b.options().checkpoint) return blocks;
  const std::vector<Op>& ops = b.graph().ops;
  std::string_view path, layer, here;
  for (std::size_t i = begin; i < ops.size(); ++i) {
    if (i == begin || ops[i].layer != layer) here = BlockPath(b, ops[i].layer);
    layer = ops[i].layer;
    if (here.empty()) continue;
    const bool goes_on = !blocks.empty() && blocks.back().end == i && here == path;
    if (!goes_on) blocks.push_back({i, i});
    blocks.back().end = i + 1;
    path = here;
  }
  const std::int64_t every = b.options().checkpoint_every;
  if (every == 1) return blocks;
  std::vector<OpRange> chosen;
  for (std::size_t i = 0; i < blocks.size(); i += static_cast<std::size_t>(every)) chosen.push_back(blocks[i]);
  return chosen;
}

Recomputation::Recomputation(Builder& builder, std::size_t begin) : b_(builder) {
  for (OpRange range : CheckpointedBlocks(builder, begin)) {
    Block& block = blocks_.emplace_back();
    block.forward = range;
  }
}

Recomputation::Block* Recomputation::BlockOf(OpId node) {
  const auto after =
      std::ranges::upper_bound(blocks_, node.index(), {}, [](const Block& b) { return b.forward.begin; });
  if (after == blocks_.begin()) return nullptr;
  Block& block = *std::prev(after);
  return node.index() < block.forward.end ? &block : nullptr;
}

void Recomputation::NoteGradients(OpId node, const std::vector<StorageId>& gradients) {
  if (b_.options().checkpoint_kind != CheckpointKind::kReentrant) return;
  Block* block = BlockOf(node);
  if (!block || block->entered) return;
  block->entered = true;
  for (StorageId id : gradients) {
    if (!IsPersistent(b_.graph().storage(id).kind)) block->held.push_back(id);
  }
}

void Recomputation::Before(OpId node) {
  Block* block = BlockOf(node);
  const bool reenters = b_.options().checkpoint_kind == CheckpointKind::kReentrant;
  asks_ = block && (reenters || SavesOf(b_, node) != Saves::kNothing);
  if (asks_ && !block->recomputed) Recompute(*block);
}

// What went in is referred to until no node of the block can ask for it any more.
void Recomputation::After(OpId node) {
  if (!asks_) return;
  const Block* block = BlockOf(node);
  for (StorageId id : block->held) b_.graph().storages[id.index()].released_after = OpId(b_.graph().ops.size() - 1);
  for (StorageId id : block->inputs) b_.graph().storages[id.index()].released_after = OpId(b_.graph().ops.size() - 1);
}

void Recomputation::Recompute(Block& block) {
  block.recomputed = true;
  const std::string layer = b_.layer();
  const CheckpointKind kind = b_.options().checkpoint_kind;
  FindInputs(block);
  TensorMap brought;
  if (kind == CheckpointKind::kOffload) brought = BringBack(block);
  const std::size_t begin = b_.graph().ops.size();
  const bool reenters = kind == CheckpointKind::kReentrant;
  block.again = b_.Repeat(block.forward.begin, reenters ? block.forward.end : EndOfRecomputation(b_, block.forward));
  b_.set_layer(layer);
  if (!brought.empty()) ReadInstead(begin, brought);
  block.again.insert(brought.begin(), brought.end());
  if (!reenters) return;
  for (TensorId out : b_.graph().ops[block.forward.end - 1].outputs) {
    const auto again = block.again.find(out);
    if (again != block.again.end()) block.held.push_back(b_.at(again->second).storage);
  }
}

void Recomputation::FindInputs(Block& block) {
  const TrainingGraph& graph = b_.graph();
  std::vector<bool> is_own(graph.storages.size());
  for (std::size_t i = block.forward.begin; i < block.forward.end; ++i) {
    for (TensorId in : graph.ops[i].inputs) {
      const StorageId id = graph.tensor(in).storage;
      if (is_own[id.index()] || IsPersistent(graph.storage(id).kind)) continue;
      if (std::ranges::find(block.inputs, id) == block.inputs.end()) block.inputs.push_back(id);
    }
    for (TensorId out : graph.ops[i].outputs) is_own[graph.tensor(out).storage.index()] = true;
  }
}

// Copies from the host of what autograd would have saved: the inputs that a gradient flows to. From here on they are
// the block's inputs.
TensorMap Recomputation::BringBack(Block& block) {
  TensorMap brought;
  std::vector<TensorId> wanted;
  for (std::size_t i = block.forward.begin; i < block.forward.end; ++i) {
    for (TensorId in : b_.graph().ops[i].inputs) {
      const auto input = std::ranges::find(block.inputs, b_.at(in).storage);
      const bool is_new = std::ranges::find(wanted, in) == wanted.end();
      if (input != block.inputs.end() && b_.NeedsGrad(in) && is_new) wanted.push_back(in);
    }
  }
  for (TensorId in : wanted) {
    const Tensor like = b_.at(in);
    brought[in] = b_.CallOne("copy_from_host", {}, {like.shape, like.dtype, like.stride});
    std::erase(block.inputs, like.storage);
    block.inputs.push_back(b_.at(brought[in]).storage);
  }
  return brought;
}

// Makes the ops since `begin` read what was brought back, views of it included.
void Recomputation::ReadInstead(std::size_t begin, const TensorMap& brought) {
  TrainingGraph& graph = b_.graph();
  std::unordered_map<StorageId, StorageId> moved;
  for (auto [old, copy] : brought) moved[graph.tensor(old).storage] = graph.tensor(copy).storage;
  const auto instead = [&](TensorId& id) {
    if (const auto found = brought.find(id); found != brought.end()) id = found->second;
  };
  for (std::size_t i = begin; i < graph.ops.size(); ++i) {
    Op& op = graph.ops[i];
    std::ranges::for_each(op.inputs, instead);
    std::ranges::for_each(op.mutated, instead);
    for (Argument& argument : op.arguments) {
      if (TensorId* id = std::get_if<TensorId>(&argument.value)) instead(*id);
      if (TensorList* list = std::get_if<TensorList>(&argument.value)) std::ranges::for_each(list->ids, instead);
    }
    for (TensorId out : op.outputs) {
      StorageId& storage = graph.tensors[out.index()].storage;
      if (const auto found = moved.find(storage); found != moved.end()) storage = found->second;
    }
  }
}

TensorId Recomputation::Instead(OpId node, TensorId id) const {
  const Block* block = BlockOf(node);
  if (!block) return id;
  const auto found = block->again.find(id);
  return found == block->again.end() ? id : found->second;
}

}  // namespace ebbtide::model
