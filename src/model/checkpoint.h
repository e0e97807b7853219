// Activation checkpointing, as torch.utils.checkpoint does it without re-entering autograd: of a block's forward pass
// nothing is kept but what went in, and when its backward first asks for a saved tensor, the block is run again.
#pragma once

#include <unordered_map>
#include <vector>

#include "model/builder.h"

namespace ebbtide::model {

// Ops [begin, end), half-open.
struct OpRange {
  std::size_t begin = 0, end = 0;
};

// The blocks that the options ask for among forward ops from `begin` on, in order: ops next to each other within one
// layer that the pattern matches, outermost first; for an empty pattern, within one that the model calls a block.
std::vector<OpRange> CheckpointedBlocks(const Builder& builder, std::size_t begin = 0);

// Runs blocks again while backward is recorded.
class Recomputation {
 public:
  // Looks for blocks among the forward ops from `begin` on. The builder outlives this object.
  Recomputation(Builder& builder, std::size_t begin);

  // To be called before and after the backward of every forward op is recorded.
  void Before(OpId node);
  void After(OpId node);

  // What the backward of `node` reads in place of a tensor of its forward: that of the second run where there is one.
  TensorId Instead(OpId node, TensorId id) const;

 private:
  struct Block {
    OpRange forward;
    bool recomputed = false;
    TensorMap again;                // by tensor of the first run
    std::vector<StorageId> inputs;  // what the block read of others' making
  };

  Block* BlockOf(OpId node);
  const Block* BlockOf(OpId node) const { return const_cast<Recomputation*>(this)->BlockOf(node); }
  void Recompute(Block& block);

  Builder& b_;
  std::vector<Block> blocks_;  // in the order of their ops
};

}  // namespace ebbtide::model
