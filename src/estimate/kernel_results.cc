#include "estimate/kernel_results.h"

#include <string_view>
#include <unordered_map>

#include "graph/arguments.h"

namespace ebbtide::estimate {
namespace {

using OrderTable = std::unordered_map<std::string_view, std::vector<std::size_t>>;

const OrderTable& Orders() {
  static const OrderTable* table = new OrderTable{
      {"native_dropout", {1, 0}},                           // the mask is there before the result
      {"_scaled_dot_product_efficient_attention", {0, 1}},  // seed and offset of the random numbers: host memory
      {"_cudnn_rnn", {0, 1, 2, 3}},                         // the weights' block is the parameters' own
  };
  return *table;
}

}  // namespace

const std::vector<std::size_t>* ResultOrder(const Op& op) {
  const auto found = Orders().find(op.kind);
  return found == Orders().end() ? nullptr : &found->second;
}

std::vector<TensorId> PackedParameters(const Op& op) {
  if (op.kind != "_cudnn_rnn") return {};
  const TensorList* weights = ArgumentAs<TensorList>(op, "weight");
  return weights == nullptr ? std::vector<TensorId>() : weights->ids;
}

bool PacksGradients(const Op& op) { return op.kind == "_cudnn_rnn_backward"; }

}  // namespace ebbtide::estimate
