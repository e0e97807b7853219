// Activation checkpointing, as torch.utils.checkpoint does it without re-entering autograd: of a block's forward pass
// nothing is kept but what went in, and when its backward first asks for a saved tensor, the block is run again. With
// re-entering (CheckpointKind::kReentrant) all of the block is run again, and what went in, what came out and the
// gradient of that stay until the backward of the whole block is done. kOffload also moves what went in to the host
// and back, as torch.autograd.graph.save_on_cpu does.
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

  // To be called before and after the backward of every forward op is recorded, one op after the other.
  void Before(OpId node);
  void After(OpId node);

  // To be told of the gradients that a node is given, before Before.
  void NoteGradients(OpId node, const std::vector<StorageId>& gradients);

  // What the backward of `node` reads in place of a tensor of its forward: that of the second run where there is one.
  TensorId Instead(OpId node, TensorId id) const;

 private:
  struct Block {
    OpRange forward;
    bool recomputed = false;
    bool entered = false;           // its backward has begun
    TensorMap again;                // by tensor of the first run
    std::vector<StorageId> inputs;  // what the block read of others' making
    std::vector<StorageId> held;    // re-entering: what came out again, and the gradient of it
  };

  Block* BlockOf(OpId node);
  const Block* BlockOf(OpId node) const { return const_cast<Recomputation*>(this)->BlockOf(node); }
  void Recompute(Block& block);
  void FindInputs(Block& block);
  TensorMap BringBack(Block& block);
  void ReadInstead(std::size_t begin, const TensorMap& brought);

  Builder& b_;
  std::vector<Block> blocks_;  // in the order of their ops
  bool asks_ = false;          // the op of the last Before asks its block for something
};

}  // namespace ebbtide::model
