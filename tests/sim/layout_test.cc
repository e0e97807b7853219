// The layout of a schedule against what its words say, derived naively for every boundary on its own.
#include "sim/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <tuple>

#include "tests/support/id_literals.h"

namespace ebbtide::sim {
namespace {

using Stays = std::vector<StayId>;

Stays AsVector(std::span<const StayId> list) { return {list.begin(), list.end()}; }

// The stays for which `has` holds, by `key` and then by storage; selection instead of sorting.
template <class Has, class Key>
Stays Chosen(const Schedule& schedule, Has has, Key key) {
  Stays left, out;
  for (const StayId i : schedule.stays.ids()) {
    if (has(schedule.stays[i])) left.push_back(i);
  }
  while (!left.empty()) {
    auto first = left.begin();
    for (auto i = left.begin(); i != left.end(); ++i) {
      const auto mine = key(*i), best = key(*first);
      if (mine < best || (mine == best && schedule.stays[*i].storage < schedule.stays[*first].storage)) first = i;
    }
    out.push_back(*first);
    left.erase(first);
  }
  return out;
}

bool Needs(const Workload& workload, OpId op, StorageId storage) {
  return std::ranges::count(workload.needs[op], storage) > 0;
}

// The graph's next op, not yet run at the boundary, that needs or makes the storage.
OpId NextNeed(const Workload& workload, const Schedule& schedule, StepId boundary, StorageId storage) {
  for (const OpId op : workload.op_ids()) {
    const auto end = schedule.steps.begin() + static_cast<std::ptrdiff_t>(boundary.index());
    const bool has_run = std::find(schedule.steps.begin(), end, op) != end;
    const bool makes = std::ranges::count(workload.births[op], storage) > 0;
    if (!has_run && (makes || Needs(workload, op, storage))) return op;
  }
  return {};
}

// The first step of the stay that needs its storage; none: no step does.
StepId FirstNeed(const Workload& workload, const Schedule& schedule, const Stay& stay) {
  for (const StepId k : Ids(stay.from, stay.to)) {
    if (Needs(workload, schedule.steps[k], stay.storage)) return k;
  }
  return {};
}

int CheckLayout(const Workload& workload, const Schedule& schedule) {
  const Layout layout = MakeLayout(workload, schedule);
  const std::size_t steps = schedule.steps.size();
  EXPECT_EQ(layout.leaving.size(), steps + 1);
  EXPECT_EQ(layout.ending.size(), steps + 1);
  EXPECT_EQ(layout.entering.size(), steps + 1);
  EXPECT_EQ(layout.arrivals.size(), steps);
  int copies = 0;
  for (const StepId k : Ids<StepId>(steps + 1)) {
    const Stays leaving = Chosen(
        schedule, [&](const Stay& stay) { return stay.end == End::kCopyOut && stay.leave == k; },
        [&](StayId i) { return schedule.stays[i].turn; });
    const Stays ending = Chosen(
        schedule, [&](const Stay& stay) { return stay.end != End::kStays && stay.to == k; },
        [](StayId i) { return i; });
    const Stays entering = Chosen(
        schedule, [&](const Stay& stay) { return stay.begin == Begin::kCopyIn && stay.from == k; },
        [&](StayId i) { return NoneLast(NextNeed(workload, schedule, k, schedule.stays[i].storage)); });
    EXPECT_EQ(AsVector(layout.leaving[k]), leaving) << "boundary " << k.value;
    EXPECT_EQ(AsVector(layout.ending[k]), ending) << "boundary " << k.value;
    EXPECT_EQ(AsVector(layout.entering[k]), entering) << "boundary " << k.value;
    copies += static_cast<int>(leaving.size() + entering.size());
    if (k == schedule.steps.end_id()) break;
    const auto needs = workload.needs[schedule.steps[k]];
    const Stays arrivals = Chosen(
        schedule,
        [&](const Stay& stay) { return stay.begin == Begin::kCopyIn && FirstNeed(workload, schedule, stay) == k; },
        [&](StayId i) { return std::ranges::find(needs, schedule.stays[i].storage) - needs.begin(); });
    EXPECT_EQ(AsVector(layout.arrivals[k]), arrivals) << "step " << k.value;
    const auto here = schedule.steps.begin() + static_cast<std::ptrdiff_t>(k.index());
    EXPECT_EQ(layout.again[k], std::find(schedule.steps.begin(), here, *here) != here) << "step " << k.value;
  }
  return copies;
}

// Some ops that need and make storages, whatever sense that has.
Workload RandomWorkload(std::mt19937_64& random) {
  const auto below = [&](std::uint32_t end) {
    return std::uniform_int_distribution<std::uint32_t>(0, end - 1)(random);
  };
  Workload out;
  const std::size_t ops = 1 + below(20), storages = 1 + below(12);
  out.bytes.assign(storages, 8);
  out.time.assign(ops, 1);
  IdVector<StorageId, std::set<OpId>> uses(storages);
  for (const OpId op : out.op_ids()) {
    std::vector<StorageId> needs, births;
    for (const StorageId s : out.storage_ids()) {
      const std::uint32_t what = below(8);
      if (what == 0) births.push_back(s);
      if (what == 1 || what == 2) needs.push_back(s);
      if (what <= 2) uses[s].insert(op);
    }
    std::ranges::shuffle(needs, random);
    out.needs.Add(needs);
    out.births.Add(births);
  }
  for (const std::set<OpId>& list : uses) out.uses.Add(std::vector<OpId>(list.begin(), list.end()));
  return out;
}

// Every op in its order, some again, and for each storage stays that do not overlap.
Schedule RandomSchedule(const Workload& workload, std::mt19937_64& random) {
  const auto below = [&](std::uint32_t end) {
    return std::uniform_int_distribution<std::uint32_t>(0, end - 1)(random);
  };
  Schedule out;
  for (const OpId op : workload.op_ids()) {
    out.steps.push_back(op);
    while (below(4) == 0) out.steps.push_back(OpId(below(static_cast<std::uint32_t>(op.index() + 1))));
  }
  const StepId steps = out.steps.end_id();
  const auto behind = [](StepId k, std::uint32_t count) { return StepId(k.index() + count); };
  for (const StorageId s : workload.storage_ids()) {
    StepId from(below(3));
    while (from < steps) {
      Stay stay{.storage = s, .from = from};
      stay.to = std::min(steps, behind(from, 1 + below(6)));
      stay.begin = below(2) == 0 ? Begin::kCopyIn : Begin::kRecompute;
      stay.end = stay.to == steps && below(2) == 0 ? End::kStays : below(2) == 0 ? End::kCopyOut : End::kFree;
      if (stay.end == End::kCopyOut) {
        stay.leave = behind(from, 1 + below(static_cast<std::uint32_t>(stay.to.value - from.value)));
        stay.turn = below(3);
      }
      out.stays.push_back(stay);
      from = behind(stay.to, below(3));
    }
  }
  std::ranges::sort(out.stays, {}, [](const Stay& stay) { return std::tuple(stay.from, stay.storage); });
  return out;
}

TEST(Layout, IsWhatItsWordsSay) {
  int copies = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const Workload workload = RandomWorkload(random);
    copies += CheckLayout(workload, RandomSchedule(workload, random));
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(copies, 1000);
}

// Two copies leave at one boundary in the same turn, and one of the storages comes back.
//   op 0 makes s0, op 1 makes s1, op 2 makes s2, op 3 needs s1 and then s0.
TEST(Layout, StoragesBreakTies) {
  Workload workload;
  workload.time = {1, 1, 1, 1};
  workload.workspace = {0, 0, 0, 0};
  workload.bytes = {8, 8, 8};
  using Storages = std::vector<StorageId>;
  using Ops = std::vector<OpId>;
  for (const Storages& list : {Storages{}, {}, {}, {1_storage, 0_storage}}) workload.needs.Add(list);
  for (const Storages& list : {Storages{0_storage}, {1_storage}, {2_storage}, {}}) workload.births.Add(list);
  for (const Ops& list : {Ops{0_op, 3_op}, {1_op, 3_op}, {2_op}}) workload.uses.Add(list);
  Schedule schedule;
  schedule.steps = {0_op, 1_op, 2_op, 3_op};
  schedule.stays = {{.storage = 0_storage,
                     .from = 0_step,
                     .to = 2_step,
                     .begin = Begin::kCompute,
                     .end = End::kCopyOut,
                     .leave = 2_step,
                     .turn = 1},
                    {.storage = 1_storage,
                     .from = 1_step,
                     .to = 3_step,
                     .begin = Begin::kCompute,
                     .end = End::kCopyOut,
                     .leave = 2_step,
                     .turn = 0},
                    {.storage = 2_storage, .from = 2_step, .to = 4_step, .begin = Begin::kCompute, .end = End::kStays},
                    {.storage = 0_storage, .from = 3_step, .to = 4_step, .begin = Begin::kCopyIn, .end = End::kFree},
                    {.storage = 1_storage, .from = 3_step, .to = 4_step, .begin = Begin::kCopyIn, .end = End::kFree}};
  Layout layout = MakeLayout(workload, schedule);
  EXPECT_EQ(AsVector(layout.leaving[2_step]), (Stays{1_stay, 0_stay}));  // by turn
  EXPECT_EQ(AsVector(layout.ending[2_step]), (Stays{0_stay}));
  EXPECT_EQ(AsVector(layout.ending[4_step]), (Stays{3_stay, 4_stay}));    // not s2, which stays
  EXPECT_EQ(AsVector(layout.entering[3_step]), (Stays{3_stay, 4_stay}));  // op 3 needs both: by storage
  EXPECT_EQ(AsVector(layout.arrivals[3_step]), (Stays{4_stay, 3_stay}));  // as op 3 has them
  schedule.stays[1_stay].turn = 1;
  layout = MakeLayout(workload, schedule);
  EXPECT_EQ(AsVector(layout.leaving[2_step]), (Stays{0_stay, 1_stay}));  // the same turn: by storage
}

}  // namespace
}  // namespace ebbtide::sim
