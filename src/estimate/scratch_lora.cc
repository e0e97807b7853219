// What products with stored weights take, and the fused adapters of fms-acceleration: weights made anew, the adapters'
// narrow products, masks that are found again. In the order of the libraries' own lines.
#include <algorithm>

#include "estimate/scratch_rules.h"
#include "graph/arguments.h"
#include "graph/dtype.h"

namespace ebbtide::estimate {
namespace {

constexpr std::int64_t kWeightsPerNumber = 64;  // of nf4's table

Bytes Product(std::int64_t rows, std::int64_t columns, Bytes item) {
  return SaturatingMul(SaturatingMul(rows, columns), item);
}

// Layers that are computed together.
struct FusedLayers {
  bool is_nf4 = false, has_dropout = false;
  std::int64_t rows = 0, in = 0, rank = 0;
  Bytes item = 0;
  std::vector<std::int64_t> features;

  Bytes input() const { return Product(rows, in, item); }
  Bytes narrow() const { return Product(rows, rank, item); }
};

FusedLayers Find(const ScratchQuery& query, const Tensor& input) {
  FusedLayers layers;
  layers.is_nf4 = query.op.kind.find("nf4") != std::string::npos;
  layers.in = std::max<std::int64_t>(input.shape.back(), 1);
  layers.item = ItemSize(input.dtype);
  layers.rows = SizeOf(input) / (layers.in * layers.item);
  if (const bool* drops = ArgumentAs<bool>(query.op, "dropout")) layers.has_dropout = *drops;
  const auto add = [&](TensorId id) {  // [features, rank]
    layers.features.push_back(query.graph.tensor(id).shape.front());
    layers.rank = query.graph.tensor(id).shape.back();
  };
  if (const TensorList* list = ArgumentAs<TensorList>(query.op, "b")) std::ranges::for_each(list->ids, add);
  if (const TensorId* one = ArgumentAs<TensorId>(query.op, "b")) add(*one);
  return layers;
}

ScratchList::Place MakeWeightAnew(const FusedLayers& layers, std::int64_t features, std::size_t results,
                                  ScratchList& scratch) {
  const ScratchList::Place weight = scratch.Take(results, Product(layers.in, features, layers.item));
  if (layers.is_nf4) {
    scratch.TakeAndRelease(results, Product(layers.in, features, ItemSize(DType::kFloat32)) / kWeightsPerNumber);
  }
  return weight;
}

}  // namespace

// nf4 makes its table first, and lets go of it when the weight is there.
void QuantizedLinearScratch(const ScratchQuery& query, ScratchList& scratch) {
  const std::int64_t* bytes = ArgumentAs<std::int64_t>(query.op, "table_bytes");
  const Bytes table = bytes == nullptr ? 0 : std::min(*bytes, query.op.workspace);
  const ScratchList::Place made = scratch.Take(0, table);
  const ScratchList::Place weight = scratch.Take(0, query.op.workspace - table);
  scratch.Release(made, 0);
  scratch.Release(weight, 1);
}

// Of each layer: its weight, its result, what dropout makes of the input behind a mask, and the adapter's share. GPTQ
// makes all weights first and has them to the end.
void FusedLoraScratch(const ScratchQuery& query, ScratchList& scratch) {
  const Tensor* input = query.Argument("input");
  if (input == nullptr || input->shape.empty()) return;
  const FusedLayers layers = Find(query, *input);
  if (!layers.is_nf4) {
    for (const std::int64_t features : layers.features) MakeWeightAnew(layers, features, 0, scratch);
  }
  std::size_t results = 0;
  for (const std::int64_t features : layers.features) {
    const ScratchList::Place weight =
        layers.is_nf4 ? MakeWeightAnew(layers, features, results, scratch) : Scratch::kWholeOp;
    ++results;
    scratch.Release(weight, results);
    if (layers.has_dropout) {
      const ScratchList::Place mask = scratch.Take(results, Product(layers.rows, layers.in, 1));
      scratch.Release(mask, ++results);
    }
    const ScratchList::Place a = scratch.Take(results, Product(layers.in, layers.rank, layers.item));
    const ScratchList::Place narrow = scratch.Take(results, layers.narrow());
    scratch.Release(a, results);
    const ScratchList::Place b = scratch.Take(results, Product(features, layers.rank, layers.item));
    const ScratchList::Place scaled = scratch.Take(results, Product(features, layers.rank, layers.item));
    scratch.Release(b, results);
    const ScratchList::Place share = scratch.Take(results, Product(layers.rows, features, layers.item));
    for (const ScratchList::Place place : {narrow, scaled, share}) scratch.Release(place, results);
  }
}

void FusedLoraWeightsBackwardScratch(const ScratchQuery& query, ScratchList& scratch) {
  const Tensor* input = query.Argument("input");
  if (input == nullptr || input->shape.empty()) return;
  scratch.TakeAndRelease(0, Find(query, *input).narrow());
}

// The gradient of the input: of each layer the weight once more, the product, and what dropout let through of the
// adapter's. `overwrites`: the input's own place is that of the gradient.
void FusedLoraInputBackwardScratch(const ScratchQuery& query, ScratchList& scratch) {
  const bool overwrites = query.op.kind.ends_with('_');
  const Tensor& input = query.graph.tensor(query.op.outputs.front());
  if (input.shape.empty()) return;
  const FusedLayers layers = Find(query, input);
  std::size_t results = 0;
  for (std::size_t i = 0; i < layers.features.size(); ++i) {
    const ScratchList::Place weight = MakeWeightAnew(layers, layers.features[i], results, scratch);
    if (i > 0) {
      scratch.TakeAndRelease(results, layers.input());
    } else if (!overwrites) {
      ++results;
    }
    scratch.Release(weight, results);
    const ScratchList::Place mask = scratch.Take(results, Product(layers.rows, layers.in, 1));
    const ScratchList::Place narrow = scratch.Take(results, layers.narrow());
    const ScratchList::Place share = scratch.Take(results, layers.input());
    scratch.Release(narrow, results);
    const ScratchList::Place kept = scratch.Take(results, layers.input());
    for (const ScratchList::Place place : {mask, share, kept}) scratch.Release(place, results);
  }
}

}  // namespace ebbtide::estimate
