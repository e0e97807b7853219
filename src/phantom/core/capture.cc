// Captures, from their begin to the graph that they leave.
#include "phantom/core/capture.h"

#include <algorithm>
#include <unordered_set>

#include "phantom/core/device.h"

namespace ebbtide::phantom {
namespace {

// Captures that have begun and not ended.
struct Active {
  std::mutex mutex;
  std::vector<std::shared_ptr<Capture>> captures;
};

Active& TheActive() {
  static Active* active = new Active;
  return *active;
}

std::atomic<int> active_count{0};
thread_local CaptureMode thread_mode = CaptureMode::kGlobal;

std::uint64_t NextId() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

Capture::Capture(std::shared_ptr<Graph> graph, const Stream* origin, CaptureMode mode)
    : graph_(std::move(graph)), origin_(origin), mode_(mode), id_(NextId()) {}

const GraphNode* Capture::Add(Operation operation, const std::vector<const GraphNode*>& after) {
  std::lock_guard lock(mutex_);
  return graph_->Add(std::move(operation), after);
}

std::vector<const GraphNode*> Capture::Append(const Graph& graph, const std::vector<const GraphNode*>& after) {
  std::lock_guard lock(mutex_);
  return graph_->Append(graph, after);
}

void Capture::Join(Stream* stream) {
  std::lock_guard lock(mutex_);
  streams_.insert(stream);
}

std::set<Stream*> Capture::streams() const {
  std::lock_guard lock(mutex_);
  return streams_;
}

bool Capture::AllBefore(const std::vector<const GraphNode*>& nodes, const std::vector<const GraphNode*>& ends) {
  std::unordered_set<const GraphNode*> seen(ends.begin(), ends.end());
  std::vector<const GraphNode*> open(ends.begin(), ends.end());
  while (!open.empty()) {
    const GraphNode* node = open.back();
    open.pop_back();
    for (const GraphNode* one : node->after)
      if (seen.insert(one).second) open.push_back(one);
  }
  return std::all_of(nodes.begin(), nodes.end(), [&](const GraphNode* node) { return seen.contains(node); });
}

Code BeginCapture(Stream& stream, CaptureMode mode, std::shared_ptr<Graph> graph,
                  const std::vector<const GraphNode*>& after) {
  if (stream.is_legacy()) return Code::kCaptureUnsupported;
  if (!graph) graph = TheGraphs().Create();
  auto capture = std::make_shared<Capture>(graph, &stream, mode);
  if (!stream.EnterCapture(capture, after)) return Code::kIllegalState;
  Active& active = TheActive();
  std::lock_guard lock(active.mutex);
  active.captures.push_back(capture);
  active_count.fetch_add(1, std::memory_order_acq_rel);
  return Code::kSuccess;
}

Code EndCapture(Stream& stream, std::shared_ptr<Graph>& out) {
  auto [capture, ends] = stream.CapturePlace();
  if (!capture) return Code::kIllegalState;
  if (!capture->IsOrigin(stream)) return Code::kCaptureUnmatched;
  if (capture->mode() != CaptureMode::kRelaxed && capture->thread() != std::this_thread::get_id())
    return Code::kCaptureWrongThread;
  bool joined = true;
  capture->End();
  for (Stream* each : capture->streams()) {
    joined = joined && Capture::AllBefore(each->CapturePlace().second, ends);
    each->LeaveCapture();
  }
  {
    Active& active = TheActive();
    std::lock_guard lock(active.mutex);
    std::erase(active.captures, capture);
    active_count.fetch_sub(1, std::memory_order_acq_rel);
  }
  if (!capture->invalid() && joined) {
    out = capture->graph();
    return Code::kSuccess;
  }
  TheGraphs().Remove(capture->graph().get());
  return capture->invalid() ? Code::kCaptureInvalidated : Code::kCaptureUnjoined;
}

CaptureInfo CaptureOf(Stream& stream) {
  auto [capture, after] = stream.CapturePlace();
  if (!capture) return {};
  return {capture->invalid() ? CaptureStatus::kInvalidated : CaptureStatus::kActive, capture->id(),
          capture->graph().get(), std::move(after)};
}

Code UpdateCapture(Stream& stream, const std::vector<const GraphNode*>& after, bool replace) {
  auto [capture, present] = stream.CapturePlace();
  if (!capture) return Code::kIllegalState;
  if (!replace) present.insert(present.end(), after.begin(), after.end());
  stream.SetCapturePlace(replace ? after : present);
  return Code::kSuccess;
}

Code RefuseIfCapturing(Stream& stream) {
  if (active_count.load(std::memory_order_acquire) == 0) return Code::kSuccess;
  auto [capture, after] = stream.CapturePlace();
  if (!capture) return Code::kSuccess;
  capture->Invalidate();
  return Code::kCaptureUnsupported;
}

Code RefuseIfUnsafe() {
  if (active_count.load(std::memory_order_acquire) == 0 || thread_mode == CaptureMode::kRelaxed) return Code::kSuccess;
  Active& active = TheActive();
  std::lock_guard lock(active.mutex);
  Code code = Code::kSuccess;
  for (const auto& capture : active.captures) {
    const bool own = capture->thread() == std::this_thread::get_id() && capture->mode() != CaptureMode::kRelaxed;
    if (!own && (thread_mode != CaptureMode::kGlobal || capture->mode() != CaptureMode::kGlobal)) continue;
    capture->Invalidate();
    code = Code::kCaptureUnsupported;
  }
  return code;
}

CaptureMode ExchangeCaptureMode(CaptureMode mode) { return std::exchange(thread_mode, mode); }

}  // namespace ebbtide::phantom
