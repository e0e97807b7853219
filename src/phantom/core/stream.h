// A stream: operations done in the order of their submission, by a thread of its own that is started when it is first
// needed. Most operations of the phantom are nothing to do (a kernel) and are over at once if all before them are.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "phantom/core/clock.h"
#include "phantom/core/code.h"
#include "phantom/core/pending.h"
#include "phantom/core/race.h"

namespace ebbtide::phantom {

class Capture;
class Device;
class Graph;
class Stream;
struct GraphNode;

// A point in the work of a stream: behind its `number`-th operation.
struct Position {
  std::shared_ptr<Stream> stream;
  std::uint64_t number = 0;

  bool Reached() const;
  void Wait() const;
};

// What an event knows of the stream it was recorded in.
struct Mark {
  Position position;
  Nanos time = 0;
  RaceChecker::Clock clock;                  // where races are checked
  std::shared_ptr<Capture> capture = {};     // where it was recorded in a stream that is captured
  std::vector<const GraphNode*> nodes = {};  // of the capture, that it stands behind
  std::shared_ptr<Pending> pending = {};     // the last operation before it, where others decide its end

  // The virtual time, once it was reached.
  Nanos Time() const { return pending ? std::max(time, pending->end()) : time; }
};

enum class OperationKind : std::uint8_t { kKernel, kCopy, kFill, kHostFunction, kEmpty, kEventRecord, kGraph };

struct Operation {
  const char* name = "";
  Nanos duration = 0;                 // on the virtual clock
  CopyEngine* engine = nullptr;       // that it occupies
  std::function<void()> work = {};    // what is really done; empty: nothing
  bool at_once = false;               // `work` may be done in the submitting thread, if all before it is over
  std::vector<Access> accesses = {};  // for the race checker
  OperationKind kind = OperationKind::kKernel;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  static constexpr unsigned kNonBlocking = 1;  // does not wait for the legacy stream, nor that for it

  // `gpu`: the device that it is of. `is_legacy`: that device's default stream.
  Stream(Device& device, int gpu, int id, unsigned flags, int priority, bool is_legacy = false);

  void Submit(Operation operation);
  // An operation whose end others decide. Does not wait for them; where the stream captures, nothing is submitted.
  void Submit(std::shared_ptr<Pending> pending);
  // When the next operation would begin, on the virtual clock.
  Nanos Ready();
  // All that is submitted later waits for `mark`. Fails only where a capture is concerned: the stream then captures
  // too, or may not (kCaptureIsolation: the mark is of no capture or of another one, which ends this one;
  // kCapturedEvent: the capture that the mark is of has ended).
  Code WaitFor(const Mark& mark);
  Mark Record();

  // The last operation takes longer by this.
  void Extend(Nanos duration);

  // ---- Capture (capture.h)

  // False: it captures already.
  bool EnterCapture(const std::shared_ptr<Capture>& capture, const std::vector<const GraphNode*>& after);
  void LeaveCapture();
  // The capture, null where there is none, and the nodes that the next one waits for.
  std::pair<std::shared_ptr<Capture>, std::vector<const GraphNode*>> CapturePlace();
  void SetCapturePlace(const std::vector<const GraphNode*>& after);
  // False: the stream does not capture. Else all of the graph becomes part of the captured one.
  bool AppendToCapture(const Graph& graph);

  // Whether all that was submitted is over.
  bool Query();
  // The same for the phantom's own use: the program has not asked, so the race checker is not told that it knows.
  bool IsDone();
  // Returns when all that was submitted is over.
  void Synchronize();
  // The same for calls that happen to wait but do not promise to: the race checker does not take it for an order.
  void Finish();
  // Nothing is submitted any more. What was submitted is still done.
  void Close();

  int id() const { return id_; }
  unsigned flags() const { return flags_; }
  int priority() const { return priority_; }
  bool is_legacy() const { return is_legacy_; }
  int gpu() const { return gpu_; }

 private:
  friend struct Position;
  friend class Streams;

  struct Entry {
    std::function<void()> work;
    Position after;  // waits for this first
    std::uint64_t number = 0;
    Nanos end = 0;
  };

  std::uint64_t Append(std::unique_lock<std::mutex>& lock, std::function<void()> work, bool at_once, Position after);
  void WaitForLocked(std::unique_lock<std::mutex>& lock, const Mark& mark);
  Code WaitInCapture(const Mark& mark);
  Mark RecordLocked();
  bool Idle() const;
  bool ReachedNumber(std::uint64_t number) const;
  void WaitForNumber(std::uint64_t number);
  void WaitForAll(bool is_promise);
  void Serve();
  // Waits for the end of the last operation, where others decide it; without the stream's lock.
  void Settle();
  // The same if it has ended, else nothing.
  bool TrySettle();
  void Settled(const std::shared_ptr<Pending>& pending);
  void Delay(const Entry& entry) const;

  Device& device_;
  const int gpu_;
  const int id_;
  const unsigned flags_;
  const int priority_;
  const bool is_legacy_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> queue_;
  bool served_ = false;  // its thread runs
  bool closed_ = false;
  Nanos ready_ = 0;                   // virtual end of the last operation
  std::shared_ptr<Pending> pending_;  // the last operation, while it is not known to be over
  std::atomic<bool> has_pending_{false};
  std::shared_ptr<Capture> capture_;
  std::vector<const GraphNode*> capture_after_;
  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint64_t> completed_{0};
};

// Has a function of the program run in the order of the stream, in the stream's thread, never in the caller's.
Code SubmitHostFunction(Stream& stream, std::function<void()> function);

// Lower numbers go first, in the sense that the device may give them its next free unit; here all are alike.
inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -5;

// All streams of the process, by handle, and on each GPU the order between the legacy stream and those that block with
// it.
class Streams {
 public:
  explicit Streams(Device& device);

  // The stream of a handle of the API: null and 1 are the legacy stream of the thread's GPU, 2 is the thread's own on
  // it. Null where there is no such stream.
  std::shared_ptr<Stream> Find(const void* handle);
  std::shared_ptr<Stream> OfThread();
  // On the GPU of the thread.
  std::shared_ptr<Stream> Create(unsigned flags, int priority);
  bool Destroy(const void* handle);

  void SynchronizeAll(int gpu);
  // When all that was submitted is over, on the virtual clock.
  Nanos Ready();
  std::int64_t created() const { return created_.load(std::memory_order_relaxed); }

 private:
  friend class Stream;

  // Holds off the legacy stream and its blocking ones while one of them is submitted to, after making it wait for
  // those that are before it.
  std::unique_lock<std::mutex> Order(Stream& stream);
  // Those that were destroyed count until their work is over.
  std::vector<std::shared_ptr<Stream>> All();
  void ForgetClosed();

  Device& device_;
  std::mutex mutex_;  // of streams_
  std::unordered_map<const void*, std::shared_ptr<Stream>> streams_;
  std::vector<std::shared_ptr<Stream>> closing_;  // destroyed, with work that may not be over
  std::mutex order_mutex_;
  std::vector<std::atomic<int>> blocking_;  // by GPU
  std::atomic<std::int64_t> created_{0};
  std::vector<std::shared_ptr<Stream>> legacy_;  // by GPU
};

}  // namespace ebbtide::phantom
