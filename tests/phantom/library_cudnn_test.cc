// cuDNN of the phantom: the backend interface as a convolution uses it, and the older one as recurrent networks do.
#include <cudnn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/support/phantom/fresh_process.h"

namespace ebbtide::phantom {
namespace {

const Variables kA100 = {{"PROFILE", "a100-40gb"}};

#define OK(call) ASSERT_EQ(call, CUDNN_STATUS_SUCCESS)

using Backend = cudnnBackendDescriptor_t;

Backend Make(cudnnBackendDescriptorType_t type) {
  Backend made = nullptr;
  EXPECT_EQ(cudnnBackendCreateDescriptor(type, &made), CUDNN_STATUS_SUCCESS);
  return made;
}

template <class T>
cudnnStatus_t Set(Backend descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  const std::vector<T>& values) {
  return cudnnBackendSetAttribute(descriptor, name, type, static_cast<int64_t>(values.size()), values.data());
}

Backend Tensor(int64_t id, std::vector<int64_t> dims) {
  Backend made = Make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  std::vector<int64_t> strides{dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
  EXPECT_EQ(Set<int64_t>(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Set<int64_t>(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Set<cudnnDataType_t>(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_FLOAT}),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Set<int64_t>(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, {16}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(Set<int64_t>(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {id}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnBackendFinalize(made), CUDNN_STATUS_SUCCESS);
  return made;
}

Backend ConvolutionOfOne() {
  Backend made = Make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  Set<cudnnDataType_t>(made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_FLOAT});
  Set<cudnnConvolutionMode_t>(made, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                              {CUDNN_CROSS_CORRELATION});
  Set<int64_t>(made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, {2});
  for (auto name : {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                    CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS})
    Set<int64_t>(made, name, CUDNN_TYPE_INT64, {1, 1});
  EXPECT_EQ(cudnnBackendFinalize(made), CUDNN_STATUS_SUCCESS);
  return made;
}

// A 3 x 3 convolution of 64 channels on 8 images of 56 x 56.
Backend GraphOfOne() {
  Backend x = Tensor('x', {8, 64, 56, 56}), w = Tensor('w', {64, 64, 3, 3}), y = Tensor('y', {8, 64, 56, 56});
  Backend convolution = ConvolutionOfOne();
  Backend operation = Make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  Set<float>(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, {1});
  Set<float>(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, {0});
  Set<Backend>(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
               {convolution});
  Set<Backend>(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_TYPE_BACKEND_DESCRIPTOR, {x});
  Set<Backend>(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_TYPE_BACKEND_DESCRIPTOR, {w});
  EXPECT_EQ(cudnnBackendFinalize(operation), CUDNN_STATUS_BAD_PARAM);  // no output yet
  Set<Backend>(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_TYPE_BACKEND_DESCRIPTOR, {y});
  EXPECT_EQ(cudnnBackendFinalize(operation), CUDNN_STATUS_SUCCESS);
  Backend graph = Make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  Set<Backend>(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, {operation});
  // What is referred to lives on.
  for (Backend gone : {x, w, y, convolution, operation})
    EXPECT_EQ(cudnnBackendDestroyDescriptor(gone), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnBackendFinalize(graph), CUDNN_STATUS_SUCCESS);
  return graph;
}

std::vector<Backend> Configurations(Backend graph, cudnnBackendHeurMode_t mode) {
  Backend heuristics = Make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  Set<Backend>(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, {graph});
  Set<cudnnBackendHeurMode_t>(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, {mode});
  EXPECT_EQ(cudnnBackendFinalize(heuristics), CUDNN_STATUS_SUCCESS);
  int64_t count = 0;
  EXPECT_EQ(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                     &count, nullptr),
            CUDNN_STATUS_SUCCESS);
  std::vector<Backend> made;
  for (int64_t i = 0; i < count; ++i) made.push_back(Make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  EXPECT_EQ(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                                     &count, made.data()),
            CUDNN_STATUS_SUCCESS);
  return made;
}

Backend Plan(Backend configuration, int64_t& workspace) {
  Backend plan = Make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  Set<Backend>(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, {configuration});
  EXPECT_EQ(cudnnBackendFinalize(plan), CUDNN_STATUS_SUCCESS);
  int64_t count = 0;
  EXPECT_EQ(
      cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &workspace),
      CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 1);
  return plan;
}

TEST(Cudnn, OffersEnginesThatEndWithOneWithoutWorkspace) {
  InFreshProcess(kA100, [] {
    cudnnHandle_t handle = nullptr;
    OK(cudnnCreate(&handle));
    Backend graph = GraphOfOne();
    std::vector<Backend> configurations = Configurations(graph, CUDNN_HEUR_MODE_INSTANT);
    ASSERT_GE(configurations.size(), 2u);
    int64_t first = 0, last = 0;
    Backend plan = Plan(configurations.front(), first);
    Plan(configurations.back(), last);
    // Input 8 x 64 x 56 x 56 x 4 = 6,422,528 and filter 64 x 64 x 9 x 4 = 147,456, at least.
    EXPECT_GE(first, 6'422'528 + 147'456);
    EXPECT_EQ(last, 0);
    EXPECT_EQ(Configurations(graph, CUDNN_HEUR_MODE_FALLBACK).size(), 1u);

    // A program may ask for fewer than there are.
    Backend heuristics = Make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), one = Make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    Set<Backend>(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, {graph});
    Set<cudnnBackendHeurMode_t>(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, {CUDNN_HEUR_MODE_A});
    OK(cudnnBackendFinalize(heuristics));
    int64_t written = 0;
    OK(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &written,
                                &one));
    EXPECT_EQ(written, 1);

    Backend engine = Make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t count = 0;
    OK(cudnnBackendGetAttribute(configurations[0], CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                &count, &engine));
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    OK(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes));
    ASSERT_EQ(count, 1);
    EXPECT_EQ(notes[0], CUDNN_NUMERICAL_NOTE_TENSOR_CORE);

    auto pack = [](std::vector<void*> workspace) {
      Backend made = Make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
      Set<int64_t>(made, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, {'x', 'w', 'y'});
      Set<void*>(made, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, {nullptr, nullptr, nullptr});
      Set<void*>(made, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
      EXPECT_EQ(cudnnBackendFinalize(made), CUDNN_STATUS_SUCCESS);
      return made;
    };
    EXPECT_EQ(cudnnBackendExecute(handle, plan, pack({nullptr})), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    OK(cudnnBackendExecute(handle, plan, pack({reinterpret_cast<void*>(0x1000)})));
    OK(cudnnDestroy(handle));
    EXPECT_EQ(cudnnBackendExecute(handle, plan, pack({nullptr})), CUDNN_STATUS_NOT_INITIALIZED);
  });
}

TEST(Cudnn, ChecksAttributes) {
  InFreshProcess(kA100, [] {
    Backend tensor = Make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    EXPECT_EQ(Set<int64_t>(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_INT64, {0}),
              CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    EXPECT_EQ(Set<int64_t>(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {1, 2}),
              CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND);
    EXPECT_EQ(cudnnBackendFinalize(tensor), CUDNN_STATUS_BAD_PARAM);
    int64_t id = 0, count = 0;
    EXPECT_EQ(cudnnBackendGetAttribute(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &count, &id),
              CUDNN_STATUS_NOT_INITIALIZED);
    Backend made = Tensor('t', {1, 2, 3, 4});
    OK(cudnnBackendGetAttribute(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &count, &id));
    EXPECT_EQ(id, 't');
    EXPECT_EQ(Set<int64_t>(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {2}), CUDNN_STATUS_NOT_INITIALIZED);
    EXPECT_EQ(cudnnBackendDestroyDescriptor(made), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnBackendDestroyDescriptor(made), CUDNN_STATUS_BAD_PARAM);
  });
}

TEST(Cudnn, SaysWhatItDoesNotModel) {
  Ended ended = RunToTheEnd(kA100, [] {
    Backend made = nullptr;
    EXPECT_EQ(cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR, &made),
              CUDNN_STATUS_NOT_SUPPORTED);
    char message[200];
    cudnnGetLastErrorString(message, sizeof(message));
    EXPECT_STREQ(message, "phantom: cudnnBackendCreateDescriptor of type 27 is not modelled");
    cudnnHandle_t handle = nullptr;
    EXPECT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnLRNCrossChannelForward(handle, nullptr, CUDNN_LRN_CROSS_CHANNEL_DIM1, nullptr, nullptr, nullptr,
                                          nullptr, nullptr, nullptr),
              CUDNN_STATUS_NOT_SUPPORTED);
  });
  EXPECT_NE(ended.errors.find("phantom: cudnnBackendCreateDescriptor of type 27 is not modelled"), std::string::npos);
  EXPECT_NE(ended.errors.find("phantom: cudnnLRNCrossChannelForward is not modelled"), std::string::npos);
}

// Two layers of an LSTM, both directions, 24 to 32. Matrices: 4 x 32 x (24 + 32) elements for each direction of the
// first layer, 4 x 32 x (64 + 32) of the second; then 8 biases of 32 for each of the four.
TEST(Cudnn, WeightsOfARecurrentNetworkFollowEachOther) {
  InFreshProcess(kA100, [] {
    cudnnHandle_t handle = nullptr;
    OK(cudnnCreate(&handle));
    cudnnRNNDescriptor_t rnn = nullptr;
    OK(cudnnCreateRNNDescriptor(&rnn));
    OK(cudnnSetRNNDescriptor_v8(rnn, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS, CUDNN_BIDIRECTIONAL,
                                CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, 24, 32, 32,
                                2, nullptr, 0));
    std::size_t bytes = 0;
    OK(cudnnGetRNNWeightSpaceSize(handle, rnn, &bytes));
    std::size_t matrices = 2 * 4 * 32 * (24 + 32) + 2 * 4 * 32 * (64 + 32);
    EXPECT_EQ(bytes, 4 * (matrices + 4 * 8 * 32));
    cudnnTensorDescriptor_t matrix = nullptr, bias = nullptr;
    OK(cudnnCreateTensorDescriptor(&matrix));
    OK(cudnnCreateTensorDescriptor(&bias));
    char* base = reinterpret_cast<char*>(0x10000);
    std::size_t next = 0, next_bias = 4 * matrices;
    for (int layer = 0; layer < 4; ++layer) {
      for (int id = 0; id < 8; ++id) {
        void *at = nullptr, *bias_at = nullptr;
        OK(cudnnGetRNNWeightParams(handle, rnn, layer, bytes, base, id, matrix, &at, bias, &bias_at));
        cudnnDataType_t type;
        int count = 0, dims[3], strides[3];
        OK(cudnnGetTensorNdDescriptor(matrix, 3, &type, &count, dims, strides));
        EXPECT_EQ(dims[1], 32);
        EXPECT_EQ(dims[2], id >= 4 ? 32 : layer < 2 ? 24 : 64);
        EXPECT_EQ(static_cast<char*>(at), base + next);
        EXPECT_EQ(static_cast<char*>(bias_at), base + next_bias);
        next += 4 * static_cast<std::size_t>(dims[1] * dims[2]);
        next_bias += 4 * 32;
      }
    }
    EXPECT_EQ(next, 4 * matrices);
    EXPECT_EQ(next_bias, bytes);
    void* at = nullptr;
    EXPECT_EQ(cudnnGetRNNWeightParams(handle, rnn, 0, bytes, base, 8, matrix, &at, bias, &at), CUDNN_STATUS_BAD_PARAM);
  });
}

TEST(Cudnn, AlgorithmsAreCheckedForTheirWorkspace) {
  InFreshProcess(kA100, [] {
    cudnnHandle_t handle = nullptr;
    OK(cudnnCreate(&handle));
    cudnnTensorDescriptor_t x = nullptr;
    cudnnFilterDescriptor_t w = nullptr;
    cudnnConvolutionDescriptor_t convolution = nullptr;
    OK(cudnnCreateTensorDescriptor(&x));
    OK(cudnnCreateFilterDescriptor(&w));
    OK(cudnnCreateConvolutionDescriptor(&convolution));
    OK(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 8, 64, 56, 56));
    OK(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 64, 64, 3, 3));
    OK(cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    cudnnConvolutionFwdAlgoPerf_t found[4];
    int count = 0;
    OK(cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, convolution, x, 4, &count, found));
    ASSERT_EQ(count, 2);
    EXPECT_GT(found[0].memory, found[1].memory);
    EXPECT_EQ(found[1].memory, 0u);
    float one = 1, zero = 0;
    auto run = [&](std::size_t given) {
      return cudnnConvolutionForward(handle, &one, x, nullptr, w, nullptr, convolution, found[0].algo, nullptr, given,
                                     &zero, x, nullptr);
    };
    EXPECT_EQ(run(found[0].memory - 1), CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    OK(run(found[0].memory));
    std::size_t bytes = 0;
    EXPECT_EQ(
        cudnnGetConvolutionForwardWorkspaceSize(handle, x, w, convolution, x, CUDNN_CONVOLUTION_FWD_ALGO_FFT, &bytes),
        CUDNN_STATUS_NOT_SUPPORTED);
    EXPECT_STREQ(cudnnGetErrorString(CUDNN_STATUS_NOT_SUPPORTED), "CUDNN_STATUS_NOT_SUPPORTED");
  });
}

}  // namespace
}  // namespace ebbtide::phantom
