// Models that no library defines: a multi-layer perceptron of given widths, and an LSTM language model.
#include "model/nn.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model::zoo {

namespace {

TensorId Mlp(Builder& b, const Sizes& sizes) {
  TensorId x = b.Input("features", {sizes.batch, sizes.widths.front()});
  TensorId labels = b.Label("labels", {sizes.batch});
  for (std::size_t i = 1; i < sizes.widths.size(); ++i) {
    if (i > 1) x = op::Relu(b, x);
    x = nn::Linear(b, std::to_string(2 * (i - 1)), x, sizes.widths[i]);
  }
  return op::CrossEntropy(b, x, labels);
}

TensorId LstmLanguageModel(Builder& b, const Sizes& sizes) {
  constexpr std::int64_t kVocabulary = 10000, kWidth = 650;
  constexpr int kLayers = 2;
  constexpr double kDropout = 0.5;
  TensorId tokens = b.Input("tokens", {sizes.batch, sizes.seq_len}, DType::kInt64);
  TensorId targets = b.Label("targets", {sizes.batch, sizes.seq_len});
  TensorId x = nn::Embedding(b, "embedding", tokens, kVocabulary, kWidth);
  {
    auto layer = b.Enter("lstm");
    std::vector<op::LstmWeights> weights;
    for (int i = 0; i < kLayers; ++i) {
      std::string suffix = "_l" + std::to_string(i);
      TensorId input = b.Parameter("weight_ih" + suffix, {4 * kWidth, kWidth});
      TensorId hidden = b.Parameter("weight_hh" + suffix, {4 * kWidth, kWidth});
      TensorId input_bias = b.Parameter("bias_ih" + suffix, {4 * kWidth});
      weights.push_back({input, hidden, input_bias, b.Parameter("bias_hh" + suffix, {4 * kWidth})});
    }
    x = op::Contiguous(b, op::Transpose(b, x, 0, 1));  // length first
    x = op::Transpose(b, op::Lstm(b, x, weights, kDropout), 0, 1);
  }
  TensorId logits = nn::Linear(b, "output", x, kVocabulary);
  if (b.inference()) return logits;
  return op::CrossEntropy(b, op::Flatten(b, logits, 0, 1), op::Flatten(b, targets, 0, 1));
}

}  // namespace

Family SimpleModels() {
  return {"simple",
          {{"mlp", "widths given by --widths, ReLU between, cross-entropy", {.widths = {784, 512, 512, 10}}, Mlp},
           {"lstm",
            "embedding, 2-layer nn.LSTM of 650, linear to 10000 words, 35 tokens",
            {.seq_len = 35},
            LstmLanguageModel}}};
}

}  // namespace ebbtide::model::zoo
