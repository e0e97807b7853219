// A row for each kernel whose results are not made in the order of its schema.
#include "estimate/kernel_results.h"

#include <string_view>

#include "graph/arguments.h"

namespace ebbtide::estimate {
namespace {

struct Row {
  std::string_view kind;
  std::size_t count;
  std::size_t places[4];
};
constexpr Row kOrders[] = {
    {"native_dropout", 2, {1, 0}},                           // the mask is there before the result
    {"_scaled_dot_product_efficient_attention", 2, {0, 1}},  // seed and offset of the random numbers: host memory
    {"_cudnn_rnn", 4, {0, 1, 2, 3}},                         // the weights' block is the parameters' own
};

}  // namespace

std::optional<std::span<const std::size_t>> ResultOrder(const Op& op) {
  for (const Row& row : kOrders) {
    if (op.kind == row.kind) return std::span(row.places, row.count);
  }
  return std::nullopt;
}

std::vector<TensorId> PackedParameters(const Op& op) {
  if (op.kind != "_cudnn_rnn") return {};
  const TensorList* weights = ArgumentAs<TensorList>(op, "weight");
  return weights == nullptr ? std::vector<TensorId>() : weights->ids;
}

bool PacksGradients(const Op& op) { return op.kind == "_cudnn_rnn_backward"; }

}  // namespace ebbtide::estimate
