// Recurrent networks: descriptors, where each weight lies, spaces, and the passes.
#include <algorithm>

#include "phantom/cudnn/descriptors.h"

using namespace ebbtide::phantom;
using ebbtide::Bytes;
using ebbtide::RecurrentProblem;

namespace {

std::int64_t Gates(const RnnDescriptor& rnn) {
  switch (rnn.cell) {
    case CUDNN_LSTM: return 4;
    case CUDNN_GRU: return 3;
    default: return 1;
  }
}

std::int64_t Directions(const RnnDescriptor& rnn) { return rnn.direction == CUDNN_BIDIRECTIONAL ? 2 : 1; }

// What a layer hands on to the next and to itself.
std::int64_t OutputSize(const RnnDescriptor& rnn) {
  return rnn.projection_size ? rnn.projection_size : rnn.hidden_size;
}

std::int64_t LayerInput(const RnnDescriptor& rnn, std::int64_t pseudo_layer) {
  if (pseudo_layer < Directions(rnn)) return rnn.input == CUDNN_SKIP_INPUT ? 0 : rnn.input_size;
  return OutputSize(rnn) * Directions(rnn);
}

// Elements of all matrices before `pseudo_layer`. A layer's are those on the input, gate by gate, those on the state,
// and the projection; the biases of all layers follow all matrices.
std::int64_t Matrices(const RnnDescriptor& rnn, std::int64_t pseudo_layer) {
  std::int64_t elements = 0;
  for (std::int64_t i = 0; i < pseudo_layer; ++i) {
    elements += Gates(rnn) * rnn.hidden_size * (LayerInput(rnn, i) + OutputSize(rnn));
    if (rnn.projection_size) elements += rnn.projection_size * rnn.hidden_size;
  }
  return elements;
}

std::int64_t BiasesOfLayer(const RnnDescriptor& rnn) {
  std::int64_t sets = rnn.bias == CUDNN_RNN_NO_BIAS ? 0 : rnn.bias == CUDNN_RNN_DOUBLE_BIAS ? 2 : 1;
  return sets * Gates(rnn) * rnn.hidden_size;
}

std::int64_t PseudoLayers(const RnnDescriptor& rnn) { return rnn.layers * Directions(rnn); }

Bytes WeightSpace(const RnnDescriptor& rnn) {
  std::int64_t layers = PseudoLayers(rnn);
  return (Matrices(rnn, layers) + layers * BiasesOfLayer(rnn)) * ItemSize(rnn.type);
}

RecurrentProblem RecurrentProblemOf(const RnnDescriptor& rnn, const RnnDataDescriptor& x, bool is_training) {
  return {.item_size = ItemSize(rnn.type),
          .gates = Gates(rnn),
          .has_cell_state = rnn.cell == CUDNN_LSTM,
          .layers = rnn.layers,
          .directions = Directions(rnn),
          .input_size = rnn.input_size,
          .hidden_size = rnn.hidden_size,
          .projection_size = rnn.projection_size,
          .length = x.length,
          .batch = x.batch,
          .has_dropout = rnn.dropout > 0,
          .is_training = is_training};
}

void Fill(TensorDescriptor& out, cudnnDataType_t type, std::int64_t rows, std::int64_t columns) {
  out.type = type;
  out.dims = {1, static_cast<int>(rows), static_cast<int>(columns)};
  out.strides = {static_cast<int>(rows * columns), static_cast<int>(columns), 1};
}

cudnnStatus_t Pass(const char* name, const Library& library, cudnnRNNDescriptor_t handle, cudnnRNNDataDescriptor_t x,
                   bool is_training, size_t weights, size_t workspace, size_t reserve) {
  CUDNN_DESCRIPTOR(RnnDescriptor, rnn, handle);
  CUDNN_DESCRIPTOR(RnnDataDescriptor, data, x);
  RecurrentProblem problem = RecurrentProblemOf(*rnn, *data, is_training);
  if (static_cast<Bytes>(weights) < WeightSpace(*rnn) || static_cast<Bytes>(workspace) < RecurrentWorkspace(problem) ||
      static_cast<Bytes>(reserve) < RecurrentReserve(problem))
    return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  return Run(name, library);
}

}  // namespace

cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* out) {
  CUDNN_CALL("cudnnCreateRNNDescriptor");
  return CreateDescriptor<RnnDescriptor>(out);
}

cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t handle) {
  CUDNN_CALL("cudnnDestroyRNNDescriptor", handle);
  return DestroyDescriptor<RnnDescriptor>(handle);
}

cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t* out) {
  CUDNN_CALL("cudnnCreateRNNDataDescriptor");
  return CreateDescriptor<RnnDataDescriptor>(out);
}

cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t handle) {
  CUDNN_CALL("cudnnDestroyRNNDataDescriptor", handle);
  return DestroyDescriptor<RnnDataDescriptor>(handle);
}

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t handle, cudnnRNNAlgo_t algorithm, cudnnRNNMode_t cell,
                                       cudnnRNNBiasMode_t bias, cudnnDirectionMode_t direction,
                                       cudnnRNNInputMode_t input, cudnnDataType_t type, cudnnDataType_t precision,
                                       cudnnMathType_t math, int32_t input_size, int32_t hidden_size,
                                       int32_t projection_size, int32_t layers, cudnnDropoutDescriptor_t dropout,
                                       uint32_t flags) {
  CUDNN_CALL("cudnnSetRNNDescriptor", handle, algorithm, cell, bias, direction, input, type, precision, math,
             input_size, hidden_size, projection_size, layers, flags);
  CUDNN_DESCRIPTOR(RnnDescriptor, rnn, handle);
  if (input_size < 0 || hidden_size < 1 || projection_size < 0 || projection_size > hidden_size || layers < 1)
    return CUDNN_STATUS_BAD_PARAM;
  if (ItemSize(type) == 0) return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
  std::shared_ptr<DropoutDescriptor> found = Get<DropoutDescriptor>(dropout);
  if (dropout && !found) return CUDNN_STATUS_BAD_PARAM;
  *rnn = {.cell = cell,
          .bias = bias,
          .direction = direction,
          .input = input,
          .type = type,
          .input_size = input_size,
          .hidden_size = hidden_size,
          .projection_size = projection_size == hidden_size ? 0 : projection_size,
          .layers = layers,
          .dropout = found ? found->probability : 0};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t handle, cudnnDataType_t type,
                                        cudnnRNNDataLayout_t layout, int length, int batch, int vector_size,
                                        const int* lengths, void*) {
  CUDNN_CALL("cudnnSetRNNDataDescriptor", handle, type, layout, length, batch, vector_size);
  CUDNN_DESCRIPTOR(RnnDataDescriptor, data, handle);
  if (length < 1 || batch < 1 || vector_size < 1 || !lengths) return CUDNN_STATUS_BAD_PARAM;
  *data = {.type = type, .layout = layout, .length = length, .batch = batch, .vector_size = vector_size};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor, size_t* bytes) {
  CUDNN_HANDLE_CALL("cudnnGetRNNWeightSpaceSize", handle);
  CUDNN_DESCRIPTOR(RnnDescriptor, rnn, descriptor);
  if (!bytes) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *bytes = static_cast<std::size_t>(WeightSpace(*rnn));
  return CUDNN_STATUS_SUCCESS;
}

// Ids of linear layers: gates on the input, then gates on the state, then the projection.
cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor, int32_t pseudo_layer,
                                      size_t weight_bytes, const void* weights, int32_t id,
                                      cudnnTensorDescriptor_t matrix, void** matrix_address,
                                      cudnnTensorDescriptor_t bias, void** bias_address) {
  CUDNN_HANDLE_CALL("cudnnGetRNNWeightParams", handle, descriptor, pseudo_layer, weight_bytes, id);
  CUDNN_DESCRIPTOR(RnnDescriptor, rnn, descriptor);
  std::int64_t gates = Gates(*rnn), hidden = rnn->hidden_size, out = OutputSize(*rnn);
  std::int64_t ids = 2 * gates + (rnn->projection_size ? 1 : 0);
  if (pseudo_layer < 0 || pseudo_layer >= PseudoLayers(*rnn) || id < 0 || id >= ids) return CUDNN_STATUS_BAD_PARAM;
  if (static_cast<Bytes>(weight_bytes) < WeightSpace(*rnn)) return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  // The base may be null: only offsets are wanted then.
  auto address = [&](std::int64_t element) {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(weights) +
                                   static_cast<std::uintptr_t>(element * ItemSize(rnn->type)));
  };
  std::int64_t in = LayerInput(*rnn, pseudo_layer);
  bool is_projection = id == 2 * gates, is_input = id < gates;
  std::int64_t rows = is_projection ? out : hidden, columns = is_projection ? hidden : is_input ? in : out;
  std::int64_t start = Matrices(*rnn, pseudo_layer);
  if (is_input)
    start += id * hidden * in;
  else
    start += gates * hidden * in + (id - gates) * hidden * out;
  if (matrix) {
    CUDNN_DESCRIPTOR(TensorDescriptor, tensor, matrix);
    Fill(*tensor, rnn->type, rows, std::max<std::int64_t>(columns, 1));
  }
  if (matrix_address) *matrix_address = columns > 0 ? address(start) : nullptr;

  bool has_bias =
      !is_projection && (rnn->bias == CUDNN_RNN_DOUBLE_BIAS || (is_input && rnn->bias == CUDNN_RNN_SINGLE_INP_BIAS) ||
                         (!is_input && rnn->bias == CUDNN_RNN_SINGLE_REC_BIAS));
  if (bias) {
    CUDNN_DESCRIPTOR(TensorDescriptor, tensor, bias);
    if (has_bias)
      Fill(*tensor, rnn->type, hidden, 1);
    else
      *tensor = {.type = rnn->type, .dims = {}, .strides = {}};
  }
  std::int64_t place = rnn->bias == CUDNN_RNN_SINGLE_REC_BIAS ? id - gates : id;
  if (bias_address)
    *bias_address =
        has_bias ? address(Matrices(*rnn, PseudoLayers(*rnn)) + pseudo_layer * BiasesOfLayer(*rnn) + place * hidden)
                 : nullptr;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor, cudnnForwardMode_t mode,
                                        cudnnRNNDataDescriptor_t x, size_t* workspace, size_t* reserve) {
  CUDNN_HANDLE_CALL("cudnnGetRNNTempSpaceSizes", handle, mode);
  CUDNN_DESCRIPTOR(RnnDescriptor, rnn, descriptor);
  CUDNN_DESCRIPTOR(RnnDataDescriptor, data, x);
  RecurrentProblem problem = RecurrentProblemOf(*rnn, *data, mode == CUDNN_FWD_MODE_TRAINING);
  if (workspace) *workspace = static_cast<std::size_t>(RecurrentWorkspace(problem));
  if (reserve) *reserve = static_cast<std::size_t>(RecurrentReserve(problem));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor, cudnnForwardMode_t mode,
                              const int32_t*, cudnnRNNDataDescriptor_t x, const void*, cudnnRNNDataDescriptor_t, void*,
                              cudnnTensorDescriptor_t, const void*, void*, cudnnTensorDescriptor_t, const void*, void*,
                              size_t weights, const void*, size_t workspace, void*, size_t reserve, void*) {
  CUDNN_HANDLE_CALL("cudnnRNNForward", handle, mode, weights, workspace, reserve);
  return Pass("cudnnRNNForward", *library, descriptor, x, mode == CUDNN_FWD_MODE_TRAINING, weights, workspace, reserve);
}

cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor, const int32_t*,
                                      cudnnRNNDataDescriptor_t, const void*, const void*, cudnnRNNDataDescriptor_t x,
                                      void*, cudnnTensorDescriptor_t, const void*, const void*, void*,
                                      cudnnTensorDescriptor_t, const void*, const void*, void*, size_t weights,
                                      const void*, size_t workspace, void*, size_t reserve, void*) {
  CUDNN_HANDLE_CALL("cudnnRNNBackwardData", handle, weights, workspace, reserve);
  return Pass("cudnnRNNBackwardData", *library, descriptor, x, true, weights, workspace, reserve);
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor, cudnnWgradMode_t mode,
                                         const int32_t*, cudnnRNNDataDescriptor_t x, const void*,
                                         cudnnTensorDescriptor_t, const void*, cudnnRNNDataDescriptor_t, const void*,
                                         size_t weights, void*, size_t workspace, void*, size_t reserve, void*) {
  CUDNN_HANDLE_CALL("cudnnRNNBackwardWeights", handle, mode, weights, workspace, reserve);
  return Pass("cudnnRNNBackwardWeights", *library, descriptor, x, true, weights, workspace, reserve);
}
