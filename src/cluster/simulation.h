// One simulation under way: who runs, who waits, what will happen. Of simulate.cc (what happens), queue.cc (who runs
// next) and look_ahead.cc (what would become of it), and of nobody else.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <queue>
#include <tuple>
#include <utility>

#include "cluster/simulate.h"
#include "cluster/waiting.h"

namespace ebbtide::cluster {

inline constexpr double kForever = std::numeric_limits<double>::infinity();

enum class EventKind : std::uint8_t { kEnd, kError, kSettled };
struct Event {
  double at = 0;
  EventKind kind = EventKind::kEnd;
  std::size_t id = 0;         // of a job, or a node
  std::uint32_t version = 0;  // of the job's speed: an event of an older one is void

  auto Order() const { return std::tuple(at, kind, id, version); }
  friend bool operator>(const Event& a, const Event& b) { return a.Order() > b.Order(); }
};

struct Running {
  std::vector<std::size_t> gpus;
  double left = 0;   // of its work, seconds alone
  double rate = 0;   // of them, per second
  double since = 0;  // when `left` was that
  double begin = 0;
  std::size_t node = 0;
  std::uint32_t version = 0;
  bool alone = false;
  std::size_t run = 0;
};

class Simulation {
 public:
  Simulation(const Hardware& hardware, const Workload& workload, Policy& policy, const SimulateOptions& options);

  Outcome Execute();

 private:
  // ---- What happens
  // All that happens at the next moment at which anything does.
  void Advance();
  void Arrive(std::size_t job);
  void Handle(const Event& event);
  bool FitsSomewhere(std::size_t number, Bytes OnGpu::*need) const;
  void Start(std::size_t job, std::size_t node, const std::vector<std::size_t>& gpus, bool alone);
  bool RunsOut(std::size_t kind, const std::vector<std::size_t>& gpus) const;
  void Occupy(std::size_t number, std::size_t job, std::size_t kind, bool alone);
  void End(std::size_t job);
  // Those who share the GPU are others now: its jobs go on at other speeds.
  void Speeds(std::size_t number);
  // Counts what the job has done, and says when it will end.
  void Expect(std::size_t job);
  Outcome Summary();

  // ---- Who runs next
  void Schedule();
  // The first job of the kind, to the best place there is for it. False where there is none.
  bool TryKind(std::size_t kind);
  double ScoreOf(std::size_t kind, std::size_t node);
  // Jobs that were out of memory get GPUs of their own; where none are empty, some are kept until they are.
  void StartAgain();
  std::pair<std::size_t, std::vector<std::size_t>> EmptiestOf(const NodeState& node, const Kind& kind) const;
  // ---- What is kept for the first job that waits
  void Close(const std::vector<std::size_t>& gpus, bool closed);
  void Release();
  void KeepForFirst();
  // When enough of the GPU's jobs will have ended, at their present speeds.
  double RoomFrom(std::size_t number, std::size_t kind) const;

  // ---- What would become of it
  // From now on by the best of the policy's ways, for the jobs that are known.
  void ChooseWay();
  void GoBy(std::size_t way);
  struct Known {
    Workload workload;                           // of the jobs that run or wait
    std::map<std::size_t, std::size_t> numbers;  // by their own, those among them
  };
  Known WhatIsKnown() const;
  struct Prospect {
    double end = 0, completion = 0;  // of the jobs that are known: the last end, and the sum of all
    auto operator<=>(const Prospect&) const = default;
  };
  // Of a way; forever where it is sure to be worse than `best`.
  Prospect ProspectOf(const Known& known, std::size_t way, const Prospect& best) const;
  // What is kept and where was looked already stay as they are in `now`, whose way this goes on with.
  void GoOnFrom(const Simulation& now, const Known& known);
  // Of a job that runs, seconds alone, as it is predicted.
  double BelievedLeft(std::size_t job) const;

  // ---- Marks
  void Changed(std::size_t node) { ++state_.nodes[node].version; }
  void Left(std::size_t node) {
    Changed(node);
    left_.push_back(node);
  }

  struct Score {
    double value = 0;
    std::uint32_t version = 0;
  };

  State state_;
  Policy* policy_;
  SimulateOptions options_;
  std::vector<Policy*> ways_;                                           // of the policy; where it has none, itself
  std::vector<std::shared_ptr<const std::vector<std::size_t>>> ranks_;  // of the jobs, by way
  std::size_t way_ = 0;
  bool believed_ = false;  // it is a look ahead
  std::size_t running_count_ = 0;
  std::size_t next_ = 0;  // of the jobs, the next to arrive
  Waiting waiting_;
  std::vector<std::vector<Score>> scores_;  // by kind and node, as far as they were asked for
  std::vector<Running> running_;            // by job
  std::vector<double> first_start_;         // by job; below 0: not yet
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::size_t> left_;  // nodes that something has left, in that order
  std::deque<std::size_t> again_;  // jobs that were out of memory
  std::vector<std::size_t> kept_again_, kept_;
  std::size_t kept_for_ = Waiting::kNever;
  Outcome out_;
  double in_use_ = 0, in_use_at_ = 0, gpu_busy_sum_ = 0, completion_ = 0, last_end_ = 0;
  std::int64_t asked_ = 0, most_asked_ = 0;
};

}  // namespace ebbtide::cluster
