// One node while its shapes are inferred: what the rules in shapes*.cc are written with.
#pragma once

#include "model/mxnet/shapes.h"

namespace ebbtide::model::mxnet {

class Inference {
 public:
  Inference(Symbol& symbol, int number, std::int64_t batch) : symbol_(symbol), number_(number), batch_(batch) {}

  const Node& node() const { return symbol_.node(number_); }
  std::size_t inputs() const { return node().inputs.size(); }
  std::int64_t batch() const { return batch_; }

  // The shape of an input, which has to be known by now.
  Result<Dims> In(std::size_t input) const;
  // The same, with at least so many axes.
  Result<Dims> In(std::size_t input, std::size_t axes) const;
  bool IsKnown(std::size_t input) const;
  // Gives a weight its shape; one that has another shape already is an error.
  Status Fill(std::size_t input, const Dims& shape);
  // Fails where the number of inputs is not within `least` to `most`.
  Status Expect(std::size_t least, std::size_t most) const;
  void Yield(Dims shape) { symbol_.node(number_).shapes.push_back(std::move(shape)); }

 private:
  Symbol& symbol_;
  int number_;
  std::int64_t batch_;
};

// Images, sequences and weights (shapes_layers.cc).
Status InferConvolution(Inference& at);
Status InferFullyConnected(Inference& at);
Status InferNorm(Inference& at, bool is_batch_norm);
Status InferPooling(Inference& at, bool has_workspace);
Status InferEmbedding(Inference& at);
Status InferRecurrent(Inference& at);

// Elements; nullopt where a size is not positive or the product exceeds what a tensor may have.
std::optional<std::int64_t> CountOf(const Dims& shape);

}  // namespace ebbtide::model::mxnet
