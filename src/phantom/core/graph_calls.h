// The calls about graphs that the runtime and the driver have in common: handles in, codes out. Handles are opaque and
// the same in both, as CUDA promises.
#pragma once

#include <cstddef>
#include <functional>

#include "phantom/core/capture.h"
#include "phantom/core/code.h"

namespace ebbtide::phantom {

Code CreateGraph(void** out);
Code CloneGraph(void** out, const void* graph);
Code DestroyGraph(const void* graph);
Code InstantiateGraph(void** out, const void* graph, unsigned long long flags);
Code DestroyExecutable(const void* executable);
Code FlagsOfExecutable(const void* executable, unsigned long long* flags);
Code LaunchExecutable(const void* executable, Stream& stream);
// `result`: as cudaGraphExecUpdateResult, 0 where it went well.
Code UpdateExecutable(const void* executable, const void* graph, int& result);

// Lists: with `out` null, `count` becomes how many there are; else as many as `count` allows are written, the rest of
// them null, and `count` becomes how many were.
enum class NodeList { kAll, kRoots };
Code ListNodes(const void* graph, NodeList which, void** out, std::size_t* count);
Code ListDependencies(const void* node, void** out, std::size_t* count);
Code ListDependents(const void* node, void** out, std::size_t* count);
Code ListEdges(const void* graph, void** from, void** to, std::size_t* count);
// As cudaGraphNodeType.
Code TypeOfNode(const void* node, int& type);
Code AddEdges(const void* graph, const void* const* from, const void* const* to, std::size_t count);
// What `submit` puts into the stream it is given becomes the new node, behind `after`.
Code AddNode(const void* graph, const void* const* after, std::size_t count, const std::function<Code(Stream&)>& submit,
             void** out);
Code AddChild(const void* graph, const void* const* after, std::size_t count, const void* child, void** out);
Code PrintGraph(const void* graph, const char* path);

// `nodes` as an array that stays until the thread asks again.
Code DescribeCapture(Stream& stream, int* status, unsigned long long* id, void** graph, const void* const** nodes,
                     std::size_t* count);
Code BeginCaptureToGraph(Stream& stream, const void* graph, const void* const* after, std::size_t count, int mode);
// `flags` as cudaStreamUpdateCaptureDependenciesFlags: 0 adds, 1 replaces.
Code UpdateCaptureOf(Stream& stream, const void* const* after, std::size_t count, unsigned flags);
Code EndCaptureOf(Stream& stream, void** graph);
// A record that the program wants as a node, to be done at each launch.
Code RecordInGraph(Stream& stream, const std::shared_ptr<Event>& event);

}  // namespace ebbtide::phantom
