// The largest batch for which a plan keeps a training within a budget, no slower than a limit allows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "plan/make_plan.h"

namespace ebbtide::plan {

// A step at one batch. On the heap: a problem refers to its workload.
struct BatchStep {
  TrainingGraph graph;
  sim::Workload workload;
};
using StepAt = std::function<Result<std::unique_ptr<BatchStep>>(std::int64_t batch)>;

struct BatchOptions {
  const Policy* policy = nullptr;
  double slowdown = 2;  // the time of an iteration is at most this many times the plain time of the same batch
  Link link;
  Limits limits;
  SearchOptions search;                       // of a policy that searches, near the answer
  std::int64_t quick = 48;                    // its evaluations while the answer is still far
  std::int64_t above = 2;                     // the next so many batches must fail, and some that are further away
  std::int64_t most = std::int64_t{1} << 24;  // larger batches are not tried
  // After each trial: what was tried, and what is known so far. `fails` is 0 as long as nothing has failed.
  std::function<void(std::int64_t tried, std::int64_t fits, std::int64_t fails)> progress;
};

// What keeps a batch from being run.
enum class Obstacle : std::uint8_t {
  kNone,       // nothing up to the largest batch that may be tried
  kFloor,      // no plan can: a single op with what it touches, beside what is always there, exceeds the budget
  kLeastTime,  // no plan can: even the lower bound is above the limit on time
  kMemory,     // the policy finds no plan within the budget
  kTime,       // the policy's plan is too slow
};

struct LargestBatch {
  std::int64_t batch = 0;               // 0: there is none
  std::optional<Plan> plan;             // of that batch, valid, and as fast as the policy finds
  std::int64_t next = 0;                // the smallest batch above it that was tried and failed; 0: none
  Obstacle obstacle = Obstacle::kNone;  // why `next` failed
  std::int64_t none_from = 0;  // the smallest batch found for which there can be no plan, whoever plans; 0: none
  std::int64_t trials = 0;
};

// Whether a batch can be run is nearly monotone in it: what single large storages leave of memory is not. What is found
// has a plan that passed Validate. The first error of `step` ends the search.
Result<LargestBatch> FindLargestBatch(const StepAt& step, const BatchOptions& options);

// Why no plan can run this problem within `limit`: kFloor, kLeastTime, or kNone where one might.
Obstacle CertainObstacle(const Problem& problem, Nanos limit);

}  // namespace ebbtide::plan
