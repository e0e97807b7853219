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
  std::string_view path;
  for (std::size_t i = begin; i < ops.size(); ++i) {
    const std::string_view here = BlockPath(b, ops[i].layer);
    if (here.empty()) continue;
    const bool goes_on = !blocks.empty() && blocks.back().end == i && here == path;
    if (!goes_on) blocks.push_back({i, i});
    blocks.back().end = i + 1;
    path = here;
  }
  return blocks;
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

void Recomputation::Before(OpId node) {
  Block* block = BlockOf(node);
  if (block && !block->recomputed && SavesOf(b_, node) != Saves::kNothing) Recompute(*block);
}

// What went in is referred to until no node of the block can ask for it any more.
void Recomputation::After(OpId node) {
  const Block* block = BlockOf(node);
  if (!block || SavesOf(b_, node) == Saves::kNothing) return;
  for (StorageId id : block->inputs) b_.graph().storages[id.index()].released_after = OpId(b_.graph().ops.size() - 1);
}

void Recomputation::Recompute(Block& block) {
  block.recomputed = true;
  const std::string layer = b_.layer();
  block.again = b_.Repeat(block.forward.begin, EndOfRecomputation(b_, block.forward));
  b_.set_layer(layer);
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

TensorId Recomputation::Instead(OpId node, TensorId id) const {
  const Block* block = BlockOf(node);
  if (!block) return id;
  const auto found = block->again.find(id);
  return found == block->again.end() ? id : found->second;
}

}  // namespace ebbtide::model
