// Broken plans: what is known to be wrong is refused, and whatever a random edit makes of a plan is either refused or
// still gives what the plain step gives, on memory that is really there.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string_view>

#include "plan/validate.h"
#include "sim/simulate.h"
#include "tests/plan/memory_model.h"
#include "tests/support/hand_graph.h"
#include "tests/support/random_plans.h"

namespace ebbtide::plan {
namespace {

using sim::Begin;
using sim::End;
using sim::Stay;
using sim::StayId;
using sim::StepId;

struct Case {
  const sim::Workload& workload;
  TrainingGraph graph;
  sim::Schedule schedule;
  Bytes budget = 0;
  std::mt19937_64 random;

  std::size_t Below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); }
  Bytes Size(const Stay& stay) const { return workload.bytes[stay.storage]; }
  bool Needs(StepId step, StorageId s) const {
    return std::ranges::find(workload.needs[schedule.steps[step]], s) != workload.needs[schedule.steps[step]].end();
  }
  bool Changes(StepId step, StorageId s) const {
    return std::ranges::find(workload.changes[schedule.steps[step]], s) != workload.changes[schedule.steps[step]].end();
  }
  bool IsNeededWithin(const Stay& stay) const {
    for (const StepId k : Ids(stay.from, stay.to)) {
      if (Needs(k, stay.storage)) return true;
    }
    return false;
  }
  // The stay of the same storage that comes after.
  const Stay* Next(const Stay& stay) const {
    for (const Stay& other : schedule.stays) {
      if (other.storage == stay.storage && other.from >= stay.to) return &other;
    }
    return nullptr;
  }
  // A random stay that `fits`; null: none does.
  Stay* Pick(const std::function<bool(const Stay&)>& fits) {
    std::vector<Stay*> found;
    for (Stay& stay : schedule.stays) {
      if (Size(stay) > 0 && fits(stay)) found.push_back(&stay);
    }
    return found.empty() ? nullptr : found[Below(found.size())];
  }
};

struct Breakage {
  std::string_view name;
  bool (*apply)(Case& plan);  // false: the plan has nothing to break in this way
};

StepId Before(StepId step) { return StepId(step.index() - 1); }

bool Meets(const Stay& a, const Stay& b) { return a.from < b.to && b.from < a.to; }

// Each of these leaves a plan that is wrong, whatever else it is.
const std::vector<Breakage> kBreakages{
    {"a stay that a step reads is missing",
     [](Case& plan) {
       Stay* stay = plan.Pick([&](const Stay& s) { return plan.IsNeededWithin(s) || s.begin == Begin::kCompute; });
       if (!stay) return false;
       plan.schedule.stays.erase(plan.schedule.stays.begin() + (stay - &plan.schedule.stays.front()));
       return true;
     }},
    {"a stay ends before its last reader",
     [](Case& plan) {
       Stay* stay =
           plan.Pick([&](const Stay& s) { return s.end != End::kCopyOut && plan.Needs(Before(s.to), s.storage); });
       if (!stay) return false;
       stay->to = Before(stay->to);
       return true;
     }},
    {"what outlives the step leaves",
     [](Case& plan) {
       Stay* stay = plan.Pick([](const Stay& s) { return s.end == End::kStays; });
       if (!stay) return false;
       stay->end = plan.Below(2) == 0 ? End::kDrop : End::kFree;
       return true;
     }},
    {"a stay begins after its maker",
     [](Case& plan) {
       Stay* stay = plan.Pick([&](const Stay& s) { return s.begin == Begin::kCompute; });
       if (!stay) return false;
       ++stay->from;
       return true;
     }},
    {"a copy-in begins after its first reader",
     [](Case& plan) {
       Stay* stay =
           plan.Pick([&](const Stay& s) { return s.begin == Begin::kCopyIn && plan.Needs(s.from, s.storage); });
       if (!stay) return false;
       ++stay->from;
       return true;
     }},
    {"a first making that is called another",
     [](Case& plan) {
       Stay* stay = plan.Pick([](const Stay& s) { return s.begin == Begin::kCompute; });
       if (!stay) return false;
       stay->begin = std::array{Begin::kPresent, Begin::kCopyIn, Begin::kRecompute}[plan.Below(3)];
       return true;
     }},
    {"a recomputation that is called another",
     [](Case& plan) {
       Stay* stay = plan.Pick([](const Stay& s) { return s.begin == Begin::kRecompute; });
       if (!stay) return false;
       stay->begin = plan.Below(2) == 0 ? Begin::kPresent : Begin::kCompute;
       return true;
     }},
    {"a copy from the host, which has none",
     [](Case& plan) {
       Stay* stay = plan.Pick([&](const Stay& s) {
         const Stay* next = plan.Next(s);
         return s.end == End::kCopyOut && next && next->begin == Begin::kCopyIn && plan.IsNeededWithin(*next);
       });
       if (!stay) return false;
       stay->end = End::kDrop;
       return true;
     }},
    {"a copy to the host that leaves outside its stay",
     [](Case& plan) {
       Stay* stay = plan.Pick([](const Stay& s) { return s.end == End::kCopyOut; });
       if (!stay) return false;
       stay->leave = plan.Below(2) == 0 ? stay->from : stay->to.Next();
       return true;
     }},
    {"a copy to the host before a change",
     [](Case& plan) {
       for (Stay& stay : plan.schedule.stays) {
         if (stay.end != End::kCopyOut || plan.Size(stay) == 0) continue;
         for (const StepId k : Ids(stay.from.Next(), stay.leave)) {
           if (!plan.Changes(k, stay.storage)) continue;
           stay.leave = k;
           return true;
         }
       }
       return false;
     }},
    {"ops in another order",
     [](Case& plan) {
       const StepId k(plan.Below(plan.schedule.steps.size() - 1));
       auto& steps = plan.schedule.steps;
       // Two first runs of neighbouring ops.
       if (steps[k.Next()] != steps[k].Next() ||
           std::ranges::find(steps, steps[k]) != steps.begin() + static_cast<std::ptrdiff_t>(k.index()))
         return false;
       std::swap(steps[k], steps[k.Next()]);
       return true;
     }},
    {"a step is missing",
     [](Case& plan) {
       plan.schedule.steps.erase(plan.schedule.steps.begin() +
                                 static_cast<std::ptrdiff_t>(plan.Below(plan.schedule.steps.size())));
       return true;
     }},
    {"an op that the graph has not",
     [](Case& plan) {
       plan.schedule.steps[StepId(plan.Below(plan.schedule.steps.size()))] =
           OpId(plan.graph.ops.size() + plan.Below(3));
       return true;
     }},
    {"a storage that the graph has not",
     [](Case& plan) {
       plan.schedule.stays[StayId(plan.Below(plan.schedule.stays.size()))].storage =
           StorageId(plan.graph.storages.size() + plan.Below(3));
       return true;
     }},
    {"a recomputation runs another op",
     [](Case& plan) {
       Stay* stay = plan.Pick([](const Stay& s) { return s.begin == Begin::kRecompute; });
       if (!stay) return false;
       OpId& op = plan.schedule.steps[stay->from];
       if (op == OpId(0)) return false;
       op = OpId(op.index() - 1);
       return true;
     }},
    {"an op that runs again gives other bits",
     [](Case& plan) {
       IdVector<OpId, bool> ran(plan.graph.ops.size(), false);
       for (const OpId op : plan.schedule.steps) {
         if (ran[op]) {
           plan.graph.ops[op.index()].deterministic = false;
           return true;
         }
         ran[op] = true;
       }
       return false;
     }},
    {"one byte less than the highest address",
     [](Case& plan) {
       --plan.budget;
       return true;
     }},
    {"two storages at one address",
     [](Case& plan) {
       Stay* stay = plan.Pick([](const Stay&) { return true; });
       if (!stay) return false;
       const Stay* other = plan.Pick([&](const Stay& s) { return &s != stay && Meets(s, *stay); });
       if (!other) return false;
       // Anywhere in it.
       const Bytes units = plan.Size(*other) / plan.workload.alignment;
       stay->address =
           other->address + plan.workload.alignment * static_cast<Bytes>(plan.Below(static_cast<std::size_t>(units)));
       return true;
     }},
    {"a workspace on a storage",
     [](Case& plan) {
       const IdVector<StepId, Bytes> workspace = sim::StepWorkspace(plan.workload, plan.schedule);
       const StepId k(plan.Below(workspace.size()));
       const Stay* stay = plan.Pick([&](const Stay& s) { return s.from <= k && k < s.to; });
       if (workspace[k] == 0 || !stay) return false;
       plan.schedule.workspace_address[k] = stay->address;
       return true;
     }},
    {"a workspace without an address",
     [](Case& plan) {
       const IdVector<StepId, Bytes> workspace = sim::StepWorkspace(plan.workload, plan.schedule);
       const StepId k(plan.Below(workspace.size()));
       if (workspace[k] == 0) return false;
       plan.schedule.workspace_address[k] = -1;
       return true;
     }},
    {"an address below or beyond memory",
     [](Case& plan) {
       Stay* stay = plan.Pick([](const Stay&) { return true; });
       if (!stay) return false;
       const Bytes unit = plan.workload.alignment;
       stay->address = plan.Below(2) == 0 ? -unit : plan.budget - plan.Size(*stay) + unit;
       return true;
     }},
    {"an address that is not a multiple",
     [](Case& plan) {
       Stay* stay = plan.Pick([](const Stay&) { return true; });
       if (!stay || plan.workload.alignment == 1) return false;
       stay->address += 1 + static_cast<Bytes>(plan.Below(static_cast<std::size_t>(plan.workload.alignment - 1)));
       return true;
     }},
    {"a stay twice",
     [](Case& plan) {
       const std::size_t i = plan.Below(plan.schedule.stays.size());
       const Stay stay = plan.schedule.stays[StayId(i)];
       plan.schedule.stays.insert(plan.schedule.stays.begin() + static_cast<std::ptrdiff_t>(i), stay);
       return true;
     }},
    {"stays out of order",
     [](Case& plan) {
       const std::size_t i = plan.Below(plan.schedule.stays.size());
       if (i == 0) return false;
       std::swap(plan.schedule.stays[StayId(i - 1)], plan.schedule.stays[StayId(i)]);
       return true;
     }},
};

// One number changed, or a part lost. May be harmless.
void Edit(Case& plan) {
  auto& stays = plan.schedule.stays;
  Stay& stay = stays[StayId(plan.Below(stays.size()))];
  const auto shift = [&](StepId step) {
    const std::size_t value = step.index();
    return StepId(plan.Below(2) == 0 ? value + 1 + plan.Below(2) : value - std::min<std::size_t>(value, 1));
  };
  switch (plan.Below(11)) {
    case 0: stay.from = shift(stay.from); break;
    case 1: stay.to = shift(stay.to); break;
    case 2: stay.leave = shift(stay.leave); break;
    case 3: stay.begin = static_cast<Begin>(plan.Below(4)); break;
    case 4: stay.end = static_cast<End>(plan.Below(4)); break;
    case 5: stay.storage = StorageId(plan.Below(plan.graph.storages.size())); break;
    case 6:
      stay.address += plan.workload.alignment * (plan.Below(2) == 0 ? 1 : -1) * static_cast<Bytes>(1 + plan.Below(30));
      break;
    case 7: {
      const std::size_t i = plan.Below(stays.size());
      std::swap(stay.address, stays[StayId(i)].address);
      break;
    }
    case 8: stays.erase(stays.begin() + (&stay - &stays.front())); break;
    case 9:
      plan.schedule.steps[StepId(plan.Below(plan.schedule.steps.size()))] = OpId(plan.Below(plan.graph.ops.size()));
      break;
    default:
      plan.schedule.workspace_address[StepId(plan.Below(plan.schedule.steps.size()))] =
          static_cast<Bytes>(plan.Below(300)) * plan.workload.alignment;
  }
  // Most edits would only break the order of the stays.
  std::ranges::stable_sort(stays, {}, [](const Stay& s) { return std::pair(s.from, s.storage); });
}

// A valid plan with addresses; nothing: this seed has none.
std::optional<Case> ValidPlan(const Task& task, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const Preferences preferences = RandomPreferences(task.workload, random);
  Rollout rollout(task.problem, preferences, /*record=*/true);
  if (!rollout.Run()) return std::nullopt;
  Case plan{.workload = task.workload,
            .graph = task.graph,
            .schedule = rollout.TakeSchedule(),
            .budget = 0,
            .random = std::move(random)};
  plan.budget = GiveAddresses(task.workload, plan.schedule);
  return plan;
}

Status Verdict(const Case& plan) {
  return Validate(plan.graph, plan.schedule,
                  {.budget = plan.budget, .alignment = plan.workload.alignment, .needs_addresses = true});
}

TEST(BrokenPlans, AreRefused) {
  std::map<std::string_view, int> refused;
  const int cases = Cases(1200);
  for (int seed = 0; seed < cases; ++seed) {
    const auto task = RandomTask(2'000'000 + static_cast<std::uint64_t>(seed));
    const std::optional<Case> plan = ValidPlan(*task, static_cast<std::uint64_t>(seed));
    if (!plan) continue;
    ASSERT_TRUE(Verdict(*plan));
    for (const Breakage& breakage : kBreakages) {
      Case broken = *plan;
      if (!breakage.apply(broken)) continue;
      ASSERT_FALSE(Verdict(broken)) << "seed " << seed << ": " << breakage.name;
      ++refused[breakage.name];
    }
  }
  int all = 0;
  for (const Breakage& breakage : kBreakages) {
    EXPECT_GT(refused[breakage.name], 0) << breakage.name;
    all += refused[breakage.name];
  }
  EXPECT_GT(all, 10'000);
  Tell(all, "broken plans: refused");
}

TEST(BrokenPlans, EditsAreRefusedOrHarmless) {
  int refused = 0, harmless = 0;
  const int cases = Cases(800);
  for (int seed = 0; seed < cases; ++seed) {
    const auto task = RandomTask(3'000'000 + static_cast<std::uint64_t>(seed));
    const std::optional<Case> plan = ValidPlan(*task, static_cast<std::uint64_t>(seed));
    if (!plan) continue;
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    for (int i = 0; i < 15; ++i) {
      Case edited = *plan;
      edited.random.seed(random());
      for (std::size_t edits = 1 + edited.Below(2); edits > 0; --edits) Edit(edited);
      if (!Verdict(edited)) {
        ++refused;
        continue;
      }
      ++harmless;
      const IdVector<StepId, Bytes> bytes = sim::StepBytes(task->workload, edited.schedule);
      ASSERT_LE(*std::ranges::max_element(bytes), edited.budget) << "seed " << seed << ", edit " << i;
      ASSERT_TRUE(GivesTheSame(edited.graph, edited.schedule, task->workload.alignment, edited.budget))
          << "seed " << seed << ", edit " << i;
    }
  }
  EXPECT_GT(refused, 5 * cases);
  Tell(refused, "edited plans: refused");
  Tell(harmless, "edited plans: harmless");
  EXPECT_GT(harmless, cases / 10);
}

// y is made of x and a buffer, leaves, and is made again for the last op; meanwhile the buffer has changed.
//   op 0 makes y, op 1 changes the buffer, op 2 reads y
sim::Schedule MadeAgainAfterTheChange() {
  const StepId end(4);
  sim::Schedule schedule;
  for (const std::size_t op : {0, 1, 0, 2}) schedule.steps.push_back(OpId(op));
  const auto stay = [&](std::size_t s, std::size_t from, StepId to, Begin begin, End last) {
    schedule.stays.push_back({.storage = StorageId(s), .from = StepId(from), .to = to, .begin = begin, .end = last});
  };
  stay(0, 0, end, Begin::kPresent, End::kStays);  // x
  stay(1, 0, end, Begin::kPresent, End::kStays);  // the buffer
  stay(2, 0, StepId(1), Begin::kCompute, End::kDrop);
  stay(2, 2, end, Begin::kRecompute, End::kFree);
  stay(3, 3, end, Begin::kCompute, End::kFree);
  return schedule;
}

TEST(BrokenPlans, WhatReadsABufferIsNotMadeAgainOnceThatHasChanged) {
  for (const char* const kind : {"native_batch_norm", "cudnn_batch_norm", "mul", "mine::batch_norm"}) {
    for (const bool outside : {false, true}) {
      HandGraph step;
      const TensorId x = step.Present(8, StorageKind::kInput);
      const TensorId buffer = step.Present(4, StorageKind::kBuffer);
      step.graph.storages[1].outside = outside;
      const TensorId y = step.Make(kind, {x, buffer}, 8, {});
      step.Change("add_", {buffer}, {});
      step.Make("read", {y}, 1, {.phase = Phase::kBackward});
      const Status valid =
          Validate(step.graph, MadeAgainAfterTheChange(), {.budget = 100, .alignment = 1, .needs_addresses = false});
      ASSERT_FALSE(valid) << kind << outside;
      EXPECT_NE(valid.error().message.find("storage 1 has version 1 where 0 is expected"), std::string::npos)
          << valid.error().message;
    }
  }
}

TEST(BrokenPlans, WhatChangesABufferItselfIsMadeAgain) {
  for (const char* const kind : {"native_batch_norm", "mine::counts"}) {
    HandGraph step;
    const TensorId x = step.Present(8, StorageKind::kInput);
    const TensorId buffer = step.Present(4, StorageKind::kBuffer);
    const TensorId y = step.Make(kind, {x, buffer}, 8, {.mutated = {buffer}});
    step.Change("add_", {buffer}, {});
    step.Make("read", {y}, 1, {.phase = Phase::kBackward});
    const Status valid =
        Validate(step.graph, MadeAgainAfterTheChange(), {.budget = 100, .alignment = 1, .needs_addresses = false});
    EXPECT_TRUE(valid) << valid.error().message;
  }
}

}  // namespace
}  // namespace ebbtide::plan
