// CUDA graphs: capture over streams, what cannot be captured, and what a launch takes on the virtual clock.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <vector>

#include "phantom/core/declare.h"
#include "tests/support/phantom/fresh_process.h"

namespace ebbtide::phantom {
namespace {

constexpr std::int64_t kMicrosecond = 1000;

cudaStream_t MakeStream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  return stream;
}

cudaEvent_t MakeEvent() {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreate(&event), cudaSuccess);
  return event;
}

cudaStreamCaptureStatus StatusOf(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusInvalidated;
  EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
  return status;
}

std::size_t NodesIn(cudaGraph_t graph) {
  std::size_t count = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
  return count;
}

// In microseconds of virtual time, of `launches` launches in a row.
float TimeOf(cudaGraphExec_t executable, cudaStream_t stream, int launches) {
  cudaEvent_t begin = MakeEvent(), end = MakeEvent();
  EXPECT_EQ(cudaEventRecord(begin, stream), cudaSuccess);
  for (int i = 0; i < launches; ++i) EXPECT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  return milliseconds * 1000;
}

// One kernel of 10 us, then 20 us in this stream beside 30 us in another, then 5 us: 10 + max(20, 30) + 5.
cudaGraph_t CaptureFork(cudaStream_t stream, cudaStream_t other) {
  cudaEvent_t fork = MakeEvent(), join = MakeEvent();
  EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ebbtide_phantom_kernel(stream, "first", 10 * kMicrosecond);
  EXPECT_EQ(cudaEventRecord(fork, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(other, fork, 0), cudaSuccess);
  EXPECT_EQ(StatusOf(other), cudaStreamCaptureStatusActive);
  ebbtide_phantom_kernel(other, "beside", 30 * kMicrosecond);
  ebbtide_phantom_kernel(stream, "second", 20 * kMicrosecond);
  EXPECT_EQ(cudaEventRecord(join, other), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream, join, 0), cudaSuccess);
  ebbtide_phantom_kernel(stream, "last", 5 * kMicrosecond);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(StatusOf(stream), cudaStreamCaptureStatusNone);
  EXPECT_EQ(StatusOf(other), cudaStreamCaptureStatusNone);
  return graph;
}

TEST(Graphs, ALaunchTakesTheLongestWayEachTime) {
  InFreshProcess([] {
    cudaStream_t stream = MakeStream(), other = MakeStream();
    cudaGraph_t graph = CaptureFork(stream, other);
    EXPECT_EQ(NodesIn(graph), 4u);
    EXPECT_EQ(ebbtide_phantom_ready(), 0);  // nothing of it was done
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaGraphInstantiateWithFlags(&executable, graph, 0), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);  // what was instantiated stays
    EXPECT_FLOAT_EQ(TimeOf(executable, stream, 1), 45);
    EXPECT_FLOAT_EQ(TimeOf(executable, stream, 3), 135);
    EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
    EXPECT_EQ(cudaGraphLaunch(executable, stream), cudaErrorInvalidValue);
  });
}

TEST(Graphs, HostFunctionsRunAtEachLaunch) {
  InFreshProcess([] {
    cudaStream_t stream = MakeStream();
    int calls = 0;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
    ASSERT_EQ(cudaLaunchHostFunc(
                  stream, [](void* count) { ++*static_cast<int*>(count); }, &calls),
              cudaSuccess);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaGraphInstantiateWithFlags(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(calls, 0);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(calls, 3);
  });
}

TEST(Graphs, WaitingForACapturingStreamEndsTheCapture) {
  InFreshProcess([] {
    cudaStream_t stream = MakeStream();
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(StatusOf(stream), cudaStreamCaptureStatusInvalidated);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  });
}

TEST(Graphs, AllocationsAreRefusedUnlessTheThreadIsRelaxed) {
  InFreshProcess([] {
    cudaStream_t stream = MakeStream();
    void* memory = nullptr;
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
    EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
    EXPECT_EQ(cudaMalloc(&memory, 1024), cudaSuccess);
    ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&memory, 1024), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(cudaMalloc(&memory, 1024), cudaSuccess);
  });
}

TEST(Graphs, StreamsMustBeJoined) {
  InFreshProcess([] {
    cudaStream_t stream = MakeStream(), other = MakeStream();
    cudaEvent_t fork = MakeEvent(), outside = MakeEvent();
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(fork, stream), cudaSuccess);
    EXPECT_EQ(cudaEventQuery(fork), cudaErrorCapturedEvent);
    ASSERT_EQ(cudaStreamWaitEvent(other, fork, 0), cudaSuccess);
    ebbtide_phantom_kernel(other, "left alone", kMicrosecond);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
    // What was recorded outside cannot be waited for inside, nor the other way round.
    ASSERT_EQ(cudaEventRecord(outside, other), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(other, fork, 0), cudaErrorCapturedEvent);
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(stream, outside, 0), cudaErrorStreamCaptureIsolation);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  });
}

TEST(Graphs, AnUpdateNeedsTheSameShape) {
  InFreshProcess([] {
    cudaStream_t stream = MakeStream(), other = MakeStream();
    cudaGraph_t graph = CaptureFork(stream, other), same = CaptureFork(stream, other), empty = nullptr;
    ASSERT_EQ(cudaGraphCreate(&empty, 0), cudaSuccess);
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaGraphInstantiateWithFlags(&executable, graph, 0), cudaSuccess);
    cudaGraphExecUpdateResultInfo info;
    EXPECT_EQ(cudaGraphExecUpdate(executable, same, &info), cudaSuccess);
    EXPECT_EQ(cudaGraphExecUpdate(executable, empty, &info), cudaErrorGraphExecUpdateFailure);
    EXPECT_EQ(info.result, cudaGraphExecUpdateErrorTopologyChanged);
    EXPECT_FLOAT_EQ(TimeOf(executable, stream, 1), 45);
  });
}

TEST(Graphs, NodesAreAddedByHand) {
  InFreshProcess([] {
    cudaStream_t stream = MakeStream();
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, 1 << 20), cudaSuccess);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
    cudaGraphNode_t empty = nullptr, fill = nullptr;
    ASSERT_EQ(cudaGraphAddEmptyNode(&empty, graph, nullptr, 0), cudaSuccess);
    cudaMemsetParams params = {};
    params.dst = memory;
    params.elementSize = 1;
    params.width = 1 << 20;
    params.height = 1;
    ASSERT_EQ(cudaGraphAddMemsetNode(&fill, graph, &empty, 1, &params), cudaSuccess);
    cudaGraphNodeType type = cudaGraphNodeTypeKernel;
    EXPECT_EQ(cudaGraphNodeGetType(fill, &type), cudaSuccess);
    EXPECT_EQ(type, cudaGraphNodeTypeMemset);
    std::size_t roots = 0;
    EXPECT_EQ(cudaGraphGetRootNodes(graph, nullptr, &roots), cudaSuccess);
    EXPECT_EQ(roots, 1u);
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaGraphInstantiateWithFlags(&executable, graph, 0), cudaSuccess);
    EXPECT_GT(TimeOf(executable, stream, 1), 0);
  });
}

}  // namespace
}  // namespace ebbtide::phantom
