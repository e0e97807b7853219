// What tables, strips and pages say of plans made by hand, with their arithmetic. The link moves a byte in a
// nanosecond, and each copy takes one more to begin: 100 bytes are 101 ns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/json/plan.h"
#include "report/labels.h"
#include "report/page/plan_page.h"
#include "report/text/plan.h"
#include "report/text/plan_strip.h"
#include "report/text/text.h"
#include "tests/support/hand_graph.h"
#include "tests/support/id_literals.h"

namespace ebbtide::report {
namespace {

using jobs::PlanResult;
using plan::MovedStorage;
using plan::Stall;
using sim::Begin;
using sim::End;
using testing::HasSubstr;

constexpr Link kLink{.to_device = 1e9, .to_host = 1e9, .latency = 0};
constexpr StorageId kA(0), kB(1), kC(2), kD(3), kE(4);

// A (100) and B (50) of A are read by backward; C (30) of B is not.
//   op 0 (10 ns): A.  op 1 (20 ns): B.  op 2 (40 ns): C.  op 3 (10 ns, backward): D (5) of B.  op 4: E (5) of A.
struct FiveOps {
  FiveOps() {
    const TensorId a = step.Make("a", {}, 100, {.time = 10});
    const TensorId b = step.Make("b", {a}, 50, {.time = 20});
    step.Make("c", {b}, 30, {.time = 40});
    step.Make("d", {b}, 5, {.phase = Phase::kBackward, .time = 10});
    step.Make("e", {a}, 5, {.phase = Phase::kBackward, .time = 10});
    step.graph.ops[0].layer = "first";
    workload = step.Workload();
  }
  PlanResult Planned(sim::Schedule schedule) const {
    PlanResult result;
    result.model = "five <ops>";
    result.policy = "home";
    result.gpu = "none";
    result.budget = 160;
    result.graph = std::make_shared<const TrainingGraph>(step.graph);
    result.workload = std::make_shared<const sim::Workload>(workload);
    result.plain_time = sim::PlainTime(workload);
    result.plain_peak = sim::PlainPeak(workload);
    result.planned.outcome = sim::Simulate(workload, schedule, kLink, {.keep_timeline = true});
    result.summary = plan::Summarize(workload, schedule, result.planned.outcome);
    result.planned.plan.emplace();
    result.planned.plan->schedule = std::move(schedule);
    result.planned.plan->time = result.planned.outcome.time;
    result.planned.plan->peak = result.planned.outcome.peak;
    return result;
  }
  plan::Summary Summary(const sim::Schedule& schedule) const {
    return plan::Summarize(workload, schedule, sim::Simulate(workload, schedule, kLink, {.keep_timeline = true}));
  }
  HandGraph step;
  sim::Workload workload;
};

sim::Schedule Plain() {
  return {.steps = {0_op, 1_op, 2_op, 3_op, 4_op},
          .stays = {{.storage = kA, .from = 0_step, .to = 5_step},
                    {.storage = kB, .from = 1_step, .to = 4_step},
                    {.storage = kC, .from = 2_step, .to = 3_step},
                    {.storage = kD, .from = 3_step, .to = 5_step},
                    {.storage = kE, .from = 4_step, .to = 5_step}},
          .workspace_address = {}};
}

// A goes to the host while C is made, and comes back.
sim::Schedule Swapped() {
  return {.steps = {0_op, 1_op, 2_op, 3_op, 4_op},
          .stays = {{.storage = kA, .from = 0_step, .to = 3_step, .end = End::kCopyOut, .leave = 2_step},
                    {.storage = kB, .from = 1_step, .to = 4_step},
                    {.storage = kC, .from = 2_step, .to = 3_step},
                    {.storage = kA, .from = 3_step, .to = 5_step, .begin = Begin::kCopyIn},
                    {.storage = kD, .from = 3_step, .to = 5_step},
                    {.storage = kE, .from = 4_step, .to = 5_step}},
          .workspace_address = {}};
}

// A and B are dropped and made again; for B, A is made on the way and stays for op 4.
sim::Schedule Recomputed() {
  return {.steps = {0_op, 1_op, 2_op, 0_op, 1_op, 3_op, 4_op},
          .stays = {{.storage = kA, .from = 0_step, .to = 2_step, .end = End::kDrop},
                    {.storage = kB, .from = 1_step, .to = 3_step, .end = End::kDrop},
                    {.storage = kC, .from = 2_step, .to = 3_step},
                    {.storage = kA, .from = 3_step, .to = 7_step, .begin = Begin::kRecompute},
                    {.storage = kB, .from = 4_step, .to = 6_step, .begin = Begin::kRecompute},
                    {.storage = kD, .from = 5_step, .to = 7_step},
                    {.storage = kE, .from = 6_step, .to = 7_step}},
          .workspace_address = {}};
}

TEST(Summarize, CountsWhatBackwardNeedsAsKept) {
  const plan::Summary summary = FiveOps().Summary(Plain());
  EXPECT_EQ(summary.kept.storages, 2);  // A and B; C is a temporary, D and E are backward's own
  EXPECT_EQ(summary.kept.bytes, 100 + 50);
  EXPECT_EQ(summary.swapped.storages + summary.recomputed.storages, 0);
  EXPECT_TRUE(summary.moved.empty());
  EXPECT_TRUE(summary.stalls.empty());
}

TEST(Summarize, SaysWhatWasWaitedFor) {
  const plan::Summary summary = FiveOps().Summary(Swapped());
  EXPECT_EQ(summary.kept.bytes, 50);
  EXPECT_EQ(summary.swapped.bytes, 100);
  ASSERT_EQ(summary.moved.size(), 1u);
  // Op 1 ends at 30: the copy out runs from 30 to 131. Op 2 ends at 70 and A's memory is free at 131. The copy in
  // runs from 131 to 232. Op 3 needs B alone and runs to 141; op 4 waits for A.
  const MovedStorage& moved = summary.moved[0];
  EXPECT_EQ(moved.storage, kA);
  EXPECT_TRUE(moved.swapped);
  EXPECT_EQ(moved.returns, 1);
  EXPECT_EQ(moved.cost, 101 + 101);
  ASSERT_EQ(summary.stalls.size(), 2u);
  EXPECT_EQ(summary.stalls[0].cause, Stall::Cause::kMemory);
  EXPECT_EQ(summary.stalls[0].begin, 70);
  EXPECT_EQ(summary.stalls[0].length(), 131 - 70);
  EXPECT_EQ(summary.stalls[0].storage, kA);
  EXPECT_EQ(summary.stalls[0].op, 3_op);
  EXPECT_EQ(summary.stalls[1].cause, Stall::Cause::kData);
  EXPECT_EQ(summary.stalls[1].begin, 141);
  EXPECT_EQ(summary.stalls[1].length(), 232 - 141);
  EXPECT_EQ(summary.stalls[1].storage, kA);
  EXPECT_EQ(summary.stalls[1].op, 4_op);
}

TEST(Summarize, StallsAreAllThatTheSimulatorCounts) {
  const FiveOps five;
  for (const sim::Schedule& schedule : {Plain(), Swapped(), Recomputed()}) {
    const sim::Outcome outcome = sim::Simulate(five.workload, schedule, kLink, {.keep_timeline = true});
    Nanos all = 0;
    for (const Stall& stall : plan::Summarize(five.workload, schedule, outcome).stalls) all += stall.length();
    EXPECT_EQ(all, outcome.wait_for_memory + outcome.wait_for_data + outcome.drain);
  }
}

TEST(Summarize, CountsRecomputedStoragesNotWhatIsMadeOnTheWay) {
  const plan::Summary summary = FiveOps().Summary(Recomputed());
  EXPECT_EQ(summary.recomputed.storages, 2);
  EXPECT_EQ(summary.recomputed.bytes, 150);
  EXPECT_EQ(summary.kept.storages, 0);
  ASSERT_EQ(summary.moved.size(), 2u);
  EXPECT_EQ(summary.moved[0].storage, kA);  // the larger
  EXPECT_EQ(summary.moved[0].cost, 10);
  // A leaves at 30 and is made again from 70 on; B leaves at 70 and is made again from 80 on.
  EXPECT_EQ(summary.moved[0].leaves, 30);
  EXPECT_EQ(summary.moved[0].comes, 70);
  EXPECT_EQ(summary.moved[1].leaves, 70);
  EXPECT_EQ(summary.moved[1].comes, 80);

  // Where A is made only to make B of it, and the step itself wants no A any more, A is not among them.
  FiveOps without;
  without.step.graph.ops[4].inputs = {TensorId(kD.index())};
  without.workload = without.step.Workload();
  const plan::Summary fewer = without.Summary(Recomputed());
  EXPECT_EQ(fewer.recomputed.storages, 1);
  EXPECT_EQ(fewer.recomputed.bytes, 50);
}

TEST(Labels, NameTheLayer) {
  const FiveOps five;
  EXPECT_EQ(StorageLabel(five.step.graph, five.workload, kA), "a of first");
  EXPECT_EQ(StorageLabel(five.step.graph, five.workload, kB), "b");
  EXPECT_EQ(FormatTime(12'345'678), "12.35 ms");
  EXPECT_EQ(FormatTime(12'345), "12.3 us");
  EXPECT_EQ(FormatTime(0), "0.00 ms");
  EXPECT_EQ(FormatSlowdown(150, 100), "1.500x");
  EXPECT_EQ(FormatSlowdown(150, 0), "-");
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

TEST(PlanStrip, ShowsHowBusyEachStreamIs) {
  const FiveOps five;
  const PlanResult result = five.Planned(Swapped());
  ASSERT_EQ(result.planned.outcome.time, 242);
  // Labels of 9 columns and a space leave 22 columns of 11 ns.
  const Terminal terminal{.width = 32};
  const auto lines =
      Lines(PlanStrip(five.step.graph, five.workload, result.planned.plan->schedule, result.planned.outcome, terminal));
  ASSERT_EQ(lines.size(), 1u + 5 + 3 + 1);
  EXPECT_EQ(lines[0], "one iteration, 0.2 us: memory, and how busy the streams are");
  EXPECT_EQ(lines[1].substr(0, 10), "    180 B ");  // A, B and C
  // Compute is busy to 70 (six slices of 11 ns and 4 ns of the seventh), from 131 to 141 (1 ns before 132, 9 behind)
  // and from 232 (1 ns behind 231) to the end.
  EXPECT_EQ(lines[6], "  compute ██████▃    ▁▇        ▇");
}

TEST(PlanStrip, OfNothingIsNothing) {
  const FiveOps five;
  EXPECT_EQ(PlanStrip(five.step.graph, five.workload, {}, {}, {}), "");
}

TEST(PlanStrip, LinesFitTheTerminal) {
  const FiveOps five;
  for (const sim::Schedule& schedule : {Plain(), Swapped(), Recomputed()}) {
    const PlanResult result = five.Planned(schedule);
    for (const int width : {40, 63, 80, 120}) {
      for (const bool unicode : {true, false}) {
        const Terminal terminal{.unicode = unicode, .width = width};
        const auto lines = Lines(PlanStrip(five.step.graph, five.workload, schedule, result.planned.outcome, terminal));
        for (std::size_t i = 1; i < lines.size(); ++i) EXPECT_LE(Columns(lines[i]), width) << lines[i];
      }
    }
  }
}

TEST(PlanText, SaysThatNoPlanIsNeeded) {
  const FiveOps five;
  PlanResult result = five.Planned(Plain());
  result.budget = 1000;
  const std::string text = PlanText(result, {});
  EXPECT_THAT(text, HasSubstr("It fits without a plan."));
  EXPECT_THAT(text, testing::Not(HasSubstr("swapped")));
  result.budget = 179;
  EXPECT_THAT(PlanText(result, {}), testing::Not(HasSubstr("fits without")));
}

TEST(PlanText, DrawsTheCurve) {
  const FiveOps five;
  PlanResult result = five.Planned(Plain());
  const auto planned = std::make_shared<const plan::Planned>(result.planned);
  auto slow = std::make_shared<plan::Planned>(result.planned);
  slow->plan->time = 2 * result.plain_time;
  result.budget = 180;
  result.pareto = {{.budget = 180, .planned = planned, .lower_bound = 90},
                   {.budget = 90, .planned = slow, .lower_bound = 120},
                   {.budget = 60, .planned = nullptr, .lower_bound = 120}};
  const std::string text = PlanText(result, {});
  EXPECT_THAT(text, HasSubstr(" 180 B   100.0 %      0.1 us    1.000x  1.000x   0.0 %  the budget\n"));
  EXPECT_THAT(text, HasSubstr("  90 B    50.0 %      0.2 us    2.000x  1.333x  50.0 %\n"));
  EXPECT_THAT(text, HasSubstr("  60 B    33.3 %  infeasible\n"));
  // Twice the time until the whole budget is there.
  EXPECT_THAT(text, HasSubstr("2.000x ████████"));
  EXPECT_THAT(text, HasSubstr("       90 B (50.0 %)"));
  const Json json = PlanJson(result);
  EXPECT_EQ(json["pareto"][1]["time_ns"], 180);
  EXPECT_EQ(json["pareto"][2]["feasible"], false);
  EXPECT_TRUE(json["pareto"][2]["time_ns"].is_null());
}

// The data of a page, as its script reads it.
Json DataIn(const std::string& page) {
  const std::string_view mark = "<script id=\"data\" type=\"application/json\">";
  const std::size_t begin = page.find(mark) + mark.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(PlanPage, HoldsTheTimeline) {
  const FiveOps five;
  const std::string page = PlanPage(five.Planned(Swapped()));
  EXPECT_THAT(page, HasSubstr("<title>five &lt;ops&gt; · plan</title>"));
  EXPECT_EQ(page.find("five <ops>"), std::string::npos);
  const Json data = DataIn(page);
  EXPECT_EQ(data["model"], "five <ops>");
  // Spans by the time since the last one of the stream ended, and their lengths.
  EXPECT_EQ(data["tracks"][0]["gap"], Json({0, 0, 0, 61, 91}));
  EXPECT_EQ(data["tracks"][0]["length"], Json({10, 20, 40, 10, 10}));
  EXPECT_EQ(data["tracks"][0]["class"], Json({0, 0, 0, 1, 1}));
  EXPECT_EQ(data["tracks"][1]["gap"], Json::array({30}));
  EXPECT_EQ(data["tracks"][1]["length"], Json::array({101}));
  EXPECT_EQ(data["tracks"][2]["gap"], Json::array({131}));
  EXPECT_EQ(data["texts"][data["tracks"][1]["text"][0].get<int>()], "a of first");
  // Memory at each step, all of it activations here, and what the plain step has then, which lets go of D
  // at once.
  EXPECT_EQ(data["memory"]["at"], Json({0, 10, 30, 70, 141}));
  const auto activation = static_cast<std::size_t>(5);
  EXPECT_EQ(data["categories"][activation], "Activation");
  EXPECT_EQ(data["memory"]["by"][activation], Json({100, 150, 180, 155, 110}));
  EXPECT_EQ(data["memory"]["plain"], Json({100, 150, 180, 155, 105}));
  EXPECT_EQ(data["stalls"].size(), 2u);
  EXPECT_EQ(data["stalls"][0], Json({70, 61, 0, 3, 0, 100}));
  EXPECT_EQ(data["moved"].size(), 1u);
}

TEST(PlanPage, MarksWhatRunsAgain) {
  const FiveOps five;
  const Json data = DataIn(PlanPage(five.Planned(Recomputed())));
  EXPECT_EQ(data["tracks"][0]["class"], Json({0, 0, 0, 3, 3, 1, 1}));
  // While A and B are made again for op 3, the plain step would be at op 3.
  EXPECT_EQ(data["memory"]["plain"], Json({100, 150, 180, 155, 155, 155, 105}));
}

TEST(PlanPage, OfAnInfeasibleBudgetSaysWhy) {
  const FiveOps five;
  PlanResult result = five.Planned(Plain());
  result.planned = {};
  result.minimum = {.found = 155, .schedule = {}, .floor = 150, .op = OpId(1)};
  const Json data = DataIn(PlanPage(result));
  EXPECT_EQ(data["feasible"], false);
  ASSERT_EQ(data["failures"].size(), 3u);
  EXPECT_EQ(data["failures"][1], "The smallest budget found to work is 155 B.");
  EXPECT_EQ(data["failures"][2], "No plan can do with less than 150 B: op 1 (b) needs that much at once.");
  EXPECT_FALSE(data.contains("tracks"));
}

TEST(PlanPage, JoinsSpansWhereTheyAreTooMany) {
  HandGraph step;
  TensorId last = step.Present(8);
  constexpr int kOps = 100'000;
  for (int i = 0; i < kOps; ++i) last = step.Make("op", {last}, 8, {.time = 10});
  const sim::Workload workload = step.Workload();
  PlanResult result;
  result.graph = std::make_shared<const TrainingGraph>(step.graph);
  result.workload = std::make_shared<const sim::Workload>(workload);
  sim::Schedule schedule;
  for (const OpId op : workload.op_ids()) schedule.steps.push_back(op);
  const sim::StepId end = schedule.steps.end_id();
  schedule.stays = {{.storage = 0_storage, .from = 0_step, .to = end, .begin = Begin::kPresent, .end = End::kStays}};
  for (const sim::StepId k : schedule.steps.ids()) {
    schedule.stays.push_back({.storage = StorageId(k.index() + 1), .from = k, .to = std::min(k.Next().Next(), end)});
  }
  result.planned.outcome = sim::Simulate(workload, schedule, kLink, {.keep_timeline = true});
  result.summary = plan::Summarize(workload, schedule, result.planned.outcome);
  result.planned.plan.emplace();
  result.planned.plan->schedule = std::move(schedule);
  const std::string page = PlanPage(result);
  EXPECT_LT(page.size(), 1'500'000u);
  const Json data = DataIn(page);
  std::int64_t ops = 0, time = 0;
  for (const Json& count : data["tracks"][0]["count"]) ops += count.get<std::int64_t>();
  for (const Json& length : data["tracks"][0]["length"]) time += length.get<std::int64_t>();
  EXPECT_EQ(ops, kOps);
  EXPECT_EQ(time, 10 * kOps);
  EXPECT_LE(data["tracks"][0]["count"].size(), 30'000u);
  EXPECT_LE(data["memory"]["at"].size(), 8'000u);
}

}  // namespace
}  // namespace ebbtide::report
