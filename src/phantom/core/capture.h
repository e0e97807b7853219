// Stream capture: what is submitted to a capturing stream becomes nodes of a graph and is not done.
//
// A stream takes part from its cudaStreamBeginCapture on, or from a wait for an event that was recorded in a stream
// that takes part. At the end all of them must have been joined to the one that began.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "phantom/core/code.h"
#include "phantom/core/graph.h"

namespace ebbtide::phantom {

// By number as cudaStreamCaptureMode and CUstreamCaptureMode have them.
enum class CaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };
// By number as cudaStreamCaptureStatus has them.
enum class CaptureStatus : int { kNone = 0, kActive = 1, kInvalidated = 2 };

// Thread-safe.
class Capture {
 public:
  Capture(std::shared_ptr<Graph> graph, const Stream* origin, CaptureMode mode);

  const GraphNode* Add(Operation operation, const std::vector<const GraphNode*>& after);
  std::vector<const GraphNode*> Append(const Graph& graph, const std::vector<const GraphNode*>& after);
  void Join(Stream* stream);
  void Invalidate() { invalid_ = true; }
  void End() { ended_ = true; }

  std::uint64_t id() const { return id_; }
  bool invalid() const { return invalid_; }
  bool ended() const { return ended_; }
  CaptureMode mode() const { return mode_; }
  std::thread::id thread() const { return thread_; }
  bool IsOrigin(const Stream& stream) const { return &stream == origin_; }
  const std::shared_ptr<Graph>& graph() const { return graph_; }
  std::set<Stream*> streams() const;
  // Whether every one of `nodes` is one of `ends` or comes before one of them.
  static bool AllBefore(const std::vector<const GraphNode*>& nodes, const std::vector<const GraphNode*>& ends);

 private:
  const std::shared_ptr<Graph> graph_;
  const Stream* const origin_;
  const CaptureMode mode_;
  const std::uint64_t id_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::atomic<bool> invalid_{false}, ended_{false};
  mutable std::mutex mutex_;
  std::set<Stream*> streams_;
};

// kIllegalState: the stream captures already, or it is the legacy one, of which nothing can be captured.
// `graph`: null for a new one; else nodes are added to it, behind `after`.
Code BeginCapture(Stream& stream, CaptureMode mode, std::shared_ptr<Graph> graph = nullptr,
                  const std::vector<const GraphNode*>& after = {});
// The graph, which is null where the capture failed: the code then says why.
Code EndCapture(Stream& stream, std::shared_ptr<Graph>& out);

struct CaptureInfo {
  CaptureStatus status = CaptureStatus::kNone;
  std::uint64_t id = 0;
  Graph* graph = nullptr;
  std::vector<const GraphNode*> after;  // what the next operation of the stream waits for
};
CaptureInfo CaptureOf(Stream& stream);
// What the next operation waits for: `after` beside what it does already, or in its place.
Code UpdateCapture(Stream& stream, const std::vector<const GraphNode*>& after, bool replace);

// For calls that wait for a stream or ask about it: they cannot be captured, and end the capture.
Code RefuseIfCapturing(Stream& stream);
// For calls that may disturb a capture (cudaMalloc): refused while the thread's mode says so.
Code RefuseIfUnsafe();
// The calling thread's mode; the one before is returned.
CaptureMode ExchangeCaptureMode(CaptureMode mode);

}  // namespace ebbtide::phantom
