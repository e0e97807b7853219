// The operators a model is written with. Each function records the ATen calls that PyTorch makes for it, with the
// aliasing and the strides PyTorch gives their results, since those decide what is copied and what is saved.
// Names follow torch; a trailing InPlace is torch's trailing underscore.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/builder.h"

namespace ebbtide::model::op {

// ---- Element-wise (ops_pointwise.cc)
// Any number of operands: self, other, third.
TensorId Pointwise(Builder& b, const std::string& kind, const std::vector<TensorId>& operands,
                   Arguments arguments = {});
TensorId Unary(Builder& b, const std::string& kind, TensorId x, Arguments arguments = {});
TensorId UnaryInPlace(Builder& b, const std::string& kind, TensorId x, Arguments arguments = {});
// An in-place op whose gradient needs its input: PyTorch keeps a copy made before.
TensorId UnaryInPlaceKeepingInput(Builder& b, const std::string& kind, TensorId x, Arguments arguments = {});
TensorId Binary(Builder& b, const std::string& kind, TensorId x, TensorId y, Arguments arguments = {});
TensorId BinaryInPlace(Builder& b, const std::string& kind, TensorId x, TensorId y, Arguments arguments = {});
TensorId WithScalar(Builder& b, const std::string& kind, TensorId x, double scalar);
TensorId Compare(Builder& b, const std::string& kind, TensorId x, TensorId y);  // result is bool
TensorId Where(Builder& b, TensorId condition, TensorId x, TensorId y);
TensorId Cast(Builder& b, TensorId x, DType dtype);  // nothing where the type is the same
TensorId Add(Builder& b, TensorId x, TensorId y);
TensorId Mul(Builder& b, TensorId x, TensorId y);
TensorId Relu(Builder& b, TensorId x);
TensorId ReluInPlace(Builder& b, TensorId x);
TensorId Gelu(Builder& b, TensorId x);      // the exact form, one kernel
TensorId GeluTanh(Builder& b, TensorId x);  // the tanh form, one kernel
TensorId Softmax(Builder& b, TensorId x, std::int64_t dim);
TensorId LogSoftmax(Builder& b, TensorId x, std::int64_t dim);

// ---- Shape (ops_shape.cc). Views cost nothing; Reshape and Contiguous copy only where torch does.
TensorId Reshape(Builder& b, TensorId x, Dims shape);  // one -1 is inferred
TensorId Flatten(Builder& b, TensorId x, int start_dim, int end_dim = -1);
TensorId Transpose(Builder& b, TensorId x, int dim0, int dim1);
TensorId Permute(Builder& b, TensorId x, std::vector<int> dims);
TensorId Expand(Builder& b, TensorId x, Dims shape);  // -1: as it is
TensorId Unsqueeze(Builder& b, TensorId x, int dim);
TensorId Squeeze(Builder& b, TensorId x, int dim);
TensorId Slice(Builder& b, TensorId x, int dim, std::int64_t start, std::int64_t end, std::int64_t step = 1);
TensorId Select(Builder& b, TensorId x, int dim, std::int64_t index);
std::vector<TensorId> Split(Builder& b, TensorId x, const Dims& sizes, int dim);  // split_with_sizes: views
std::vector<TensorId> Chunk(Builder& b, TensorId x, int chunks, int dim);         // split: views
TensorId Contiguous(Builder& b, TensorId x);
TensorId Clone(Builder& b, TensorId x);
TensorId Cat(Builder& b, const std::vector<TensorId>& tensors, int dim);
TensorId Stack(Builder& b, const std::vector<TensorId>& tensors, int dim);
TensorId ConstantPad(Builder& b, TensorId x, const Dims& pad);  // pairs (before, after) from the last axis
TensorId Mean(Builder& b, TensorId x, Dims dims, bool keep_dims);
TensorId Sum(Builder& b, TensorId x, Dims dims, bool keep_dims);
TensorId Arange(Builder& b, std::int64_t count);
TensorId Fill(Builder& b, const std::string& kind, Dims shape, DType dtype = DType::kFloat32);  // zeros, ones, full

// ---- Matrix products (ops_matmul.cc)
TensorId Mm(Builder& b, TensorId x, TensorId y);
TensorId Bmm(Builder& b, TensorId x, TensorId y);
TensorId Addmm(Builder& b, TensorId bias, TensorId x, TensorId y);
TensorId T(Builder& b, TensorId x);                                            // of a matrix, a view
TensorId Linear(Builder& b, TensorId x, TensorId weight, TensorId bias = {});  // weight: [out, in]
TensorId Matmul(Builder& b, TensorId x, TensorId y);                           // torch.matmul, 2 axes and more

// ---- Convolution, pooling, normalisation (ops_image.cc)
struct ConvOptions {
  Dims stride = {1, 1};
  Dims padding = {0, 0};
  Dims dilation = {1, 1};
  std::int64_t groups = 1;
  bool transposed = false;
  Dims output_padding = {0, 0};
};
TensorId Convolution(Builder& b, TensorId x, TensorId weight, TensorId bias, const ConvOptions& options);
struct PoolOptions {
  Dims kernel;
  Dims stride = {};  // empty: the kernel
  Dims padding = {0, 0};
  bool ceil_mode = false;
};
TensorId MaxPool2d(Builder& b, TensorId x, const PoolOptions& options);
TensorId AvgPool2d(Builder& b, TensorId x, const PoolOptions& options);
TensorId AdaptiveAvgPool2d(Builder& b, TensorId x, std::int64_t height, std::int64_t width);
struct BatchNormState {
  TensorId weight, bias, running_mean, running_var;
};
TensorId BatchNorm(Builder& b, TensorId x, const BatchNormState& state);
TensorId LayerNorm(Builder& b, TensorId x, TensorId weight, TensorId bias);  // over as many last axes as weight has
TensorId Upsample(Builder& b, const std::string& kind, TensorId x, std::int64_t height, std::int64_t width);

// ---- Random masks (ops_random.cc); nothing for p = 0 and in inference
TensorId Dropout(Builder& b, TensorId x, double p);
TensorId DropoutInPlace(Builder& b, TensorId x, double p);
TensorId StochasticDepth(Builder& b, TensorId x, double p);  // drops whole images ("row" mode)

// ---- Embeddings, attention, recurrence (ops_sequence.cc)
TensorId Embedding(Builder& b, TensorId weight, TensorId indices);
struct AttentionOptions {
  TensorId mask = {};  // additive float or bool, broadcast to [batch, heads, queries, keys]; absent: none
  bool causal = false;
  double dropout = 0;
  std::optional<double> scale = {};
};
// torch's scaled_dot_product_attention over [batch, heads, length, head_dim]; picks the kernel torch would. Without
// dropout and mask, key and value may have fewer heads than query (enable_gqa), each shared by as many.
TensorId Attention(Builder& b, TensorId query, TensorId key, TensorId value, const AttentionOptions& options);
struct LstmWeights {
  TensorId input, hidden, input_bias, hidden_bias;
};
// nn.LSTM, one direction, over x [length, batch, features]; dropout between layers.
TensorId Lstm(Builder& b, TensorId x, const std::vector<LstmWeights>& layers, double dropout);

// ---- Losses (ops_loss.cc)
TensorId CrossEntropy(Builder& b, TensorId logits, TensorId target);  // class axis 1; mean; the logits in inference

}  // namespace ebbtide::model::op
