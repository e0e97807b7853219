// Plans as files. Stays are rows of one table: a plan of thousands of them stays readable and small.
#include <array>
#include <optional>

#include "base/json_fields.h"
#include "base/json_text.h"
#include "graph/check.h"
#include "graph/hash.h"
#include "graph/reorder.h"
#include "plan/plan.h"
#include "plan/validate.h"

namespace ebbtide::plan {
namespace {

using sim::Begin;
using sim::End;
using sim::StepId;
constexpr std::string_view kFormat = "ebbtide.plan";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMost = 0x7fffffff;
constexpr std::size_t kMostStepsPerByte = 4;
constexpr std::array<std::string_view, 4> kBegins{"present", "compute", "copy-in", "recompute"};
constexpr std::array<std::string_view, 4> kEnds{"free", "drop", "copy-out", "stays"};

// The places of recomputations: (step, op). All other steps are the graph's ops in their order.
std::vector<std::pair<StepId, OpId>> Recomputations(const IdVector<StepId, OpId>& steps) {
  std::vector<std::pair<StepId, OpId>> out;
  OpId next(0);
  for (const StepId k : steps.ids()) {
    if (steps[k] == next) {
      ++next;
    } else {
      out.emplace_back(k, steps[k]);
    }
  }
  return out;
}

// The number is known to be one that an id can have.
template <class IdType>
IdType IdOf(std::int64_t number) {
  return IdType(static_cast<std::size_t>(number));
}

template <class Values>
void AppendRow(std::string& out, const Values& values) {
  out += '[';
  bool first = true;
  for (const auto value : values) {
    if (!first) out += ',';
    first = false;
    AppendInteger(out, static_cast<std::int64_t>(value));
  }
  out += ']';
}

std::string ChecksumOf(std::string_view body) {
  Fingerprint fingerprint;
  fingerprint.Add(body);
  return fingerprint.Hex();
}

constexpr std::string_view kChecksumKey = "\n  \"checksum\": ";

class Parser {
 public:
  Parser(std::string_view text, const std::string& place) : in_(text), size_(text.size()), place_(place) {}

  Result<Plan> Run() {
    ReadFields();
    in_.End();
    if (in_.ok()) BuildSteps();
    if (!in_.ok()) return Within(place_, in_.error());
    return std::move(plan_);
  }

 private:
  void ReadFields() {
    constexpr std::array<JsonFields::Field, 19> fields{{{"format", true},
                                                        {"version", true},
                                                        {"graph", true},
                                                        {"graph_hash", true},
                                                        {"policy", true},
                                                        {"gpu", true},
                                                        {"budget_bytes", true},
                                                        {"alignment", true},
                                                        {"to_device_bandwidth", true},
                                                        {"to_host_bandwidth", true},
                                                        {"copy_latency_ns", true},
                                                        {"predicted", true},
                                                        {"ops", true},
                                                        {"recompute", true},
                                                        {"stays", true},
                                                        {"workspaces", true},
                                                        {"columns", false},
                                                        {"checksum", true},
                                                        {"order", false}}};
    JsonFields object(in_, fields, "a plan");
    for (int field; (field = object.Next()) >= 0;) {
      switch (field) {
        case 0:
          if (in_.String() != kFormat) in_.FailLast("\"ebbtide.plan\"");
          break;
        case 1: in_.Integer("version 1", kVersion, kVersion); break;
        case 2: plan_.graph_name = in_.String(); break;
        case 3: plan_.graph_hash = in_.String(); break;
        case 4: plan_.policy = in_.String(); break;
        case 5: plan_.gpu = in_.String(); break;
        case 6: plan_.budget = in_.Integer("bytes", 0, kTooLarge); break;
        case 7:
          plan_.alignment = in_.Integer("a power of two", 1, 1 << 20);
          if ((plan_.alignment & (plan_.alignment - 1)) != 0) in_.FailLast("a power of two");
          break;
        case 8: plan_.link.to_device = Bandwidth(); break;
        case 9: plan_.link.to_host = Bandwidth(); break;
        case 10: plan_.link.latency = in_.Integer("nanoseconds", 0, kTooLarge); break;
        case 11: ReadPredicted(); break;
        case 12: ops_ = in_.Integer("a count of ops", 0, kMost); break;
        case 13: ReadRecomputations(); break;
        case 14: ReadStays(); break;
        case 15: ReadWorkspaces(); break;
        case 16: SkipColumns(); break;
        case 17: in_.String(); break;
        case 18: ReadOrder(); break;
      }
    }
  }

  double Bandwidth() {
    const double value = in_.AnyNumber("bytes per second").real;
    if (!(value >= 1 && value <= 1e18)) in_.FailLast("bytes per second, more than 0");
    return value;
  }

  void ReadPredicted() {
    constexpr std::array<JsonFields::Field, 4> fields{
        {{"time_ns", true}, {"peak_bytes", true}, {"plain_time_ns", true}, {"plain_peak_bytes", true}}};
    JsonFields object(in_, fields);
    for (int field; (field = object.Next()) >= 0;) {
      const std::int64_t value = in_.Integer("a count", 0, kTooLarge);
      (field == 0 ? plan_.time : field == 1 ? plan_.peak : field == 2 ? plan_.plain_time : plan_.plain_peak) = value;
    }
  }

  void ReadRecomputations() {
    in_.BeginList();
    while (in_.NextItem()) {
      std::array<std::int64_t, 2> row{};
      ReadRow(row, "[step, op]");
      if (row[0] < 0 || row[0] > kMost || row[1] < 0 || row[1] > kMost) in_.FailLast("[step, op]");
      recomputations_.emplace_back(IdOf<StepId>(row[0]), IdOf<OpId>(row[1]));
    }
  }

  template <class Row>
  void ReadRow(Row& row, std::string_view expected) {
    std::size_t count = 0;
    in_.BeginList(expected);
    while (in_.NextItem()) {
      const std::int64_t value = in_.Integer(expected, -1, kTooLarge);
      if (count < row.size()) row[count] = static_cast<typename Row::value_type>(value);
      ++count;
    }
    if (in_.ok() && count != row.size()) in_.FailLast(expected);
  }

  void ReadOrder() {
    in_.BeginList();
    while (in_.NextItem()) plan_.order.push_back(IdOf<OpId>(in_.Integer("an op", 0, kMost)));
  }

  void ReadStays() {
    in_.BeginList();
    while (in_.NextItem()) {
      std::array<std::int64_t, 8> row{};
      ReadRow(row, "a stay: 8 numbers as `columns` has them");
      for (const std::size_t i : {0, 1, 2, 5, 6}) {
        if (row[i] < 0 || row[i] > kMost) in_.FailLast("a stay: 8 numbers as `columns` has them");
      }
      if (row[3] < 0 || row[3] > 3 || row[4] < 0 || row[4] > 3)
        in_.FailLast("a stay that begins and ends in a known way");
      if (!in_.ok()) return;
      plan_.schedule.stays.push_back({.storage = IdOf<StorageId>(row[0]),
                                      .from = IdOf<StepId>(row[1]),
                                      .to = IdOf<StepId>(row[2]),
                                      .begin = static_cast<Begin>(row[3]),
                                      .end = static_cast<End>(row[4]),
                                      .leave = IdOf<StepId>(row[5]),
                                      .turn = static_cast<std::uint32_t>(row[6]),
                                      .address = row[7]});
    }
  }

  void ReadWorkspaces() {
    in_.BeginList();
    while (in_.NextItem()) {
      std::array<std::int64_t, 2> row{};
      ReadRow(row, "[step, address]");
      workspaces_.emplace_back(row[0], row[1]);
    }
  }

  void SkipColumns() {
    in_.BeginList();
    while (in_.NextItem()) in_.String();
  }

  void BuildSteps() {
    const std::size_t count = static_cast<std::size_t>(ops_) + recomputations_.size();
    OpId next(0);
    auto again = recomputations_.begin();
    // The file only has the number of ops. A plan says more than this about each, so that a short one claims no memory.
    if (count > kMostStepsPerByte * size_)
      return in_.FailWith(fmt::format("ops: expected at most {} for so short a plan", kMostStepsPerByte * size_));
    for (const StepId k : Ids<StepId>(count)) {
      if (again != recomputations_.end() && again->first == k) {
        plan_.schedule.steps.push_back(again++->second);
      } else {
        plan_.schedule.steps.push_back(std::exchange(next, next.Next()));
      }
    }
    if (again != recomputations_.end() || next != IdOf<OpId>(ops_)) {
      return in_.FailWith("recompute: expected steps in their order, each once");
    }
    plan_.schedule.workspace_address.assign(count, -1);
    for (const auto& [step, address] : workspaces_) {
      if (step < 0 || static_cast<std::size_t>(step) >= count)
        return in_.FailWith("workspaces: expected steps of the plan");
      plan_.schedule.workspace_address[IdOf<StepId>(step)] = address;
    }
  }

  JsonReader in_;
  const std::size_t size_;
  const std::string& place_;
  Plan plan_;
  std::int64_t ops_ = 0;
  std::vector<std::pair<StepId, OpId>> recomputations_;
  std::vector<std::pair<std::int64_t, Bytes>> workspaces_;
};

}  // namespace

std::string PlanJson(const Plan& plan) {
  std::string out = "{\n  \"format\": \"ebbtide.plan\",\n  \"version\": 1";
  const auto key = [&](std::string_view name) { out += fmt::format(",\n  \"{}\": ", name); };
  const auto text = [&](std::string_view name, std::string_view value) { key(name), AppendJsonString(out, value); };
  const auto number = [&](std::string_view name, std::int64_t value) { key(name), AppendInteger(out, value); };
  text("graph", plan.graph_name);
  text("graph_hash", plan.graph_hash);
  text("policy", plan.policy);
  text("gpu", plan.gpu);
  number("budget_bytes", plan.budget);
  number("alignment", plan.alignment);
  key("to_device_bandwidth"), AppendJsonDouble(out, plan.link.to_device);
  key("to_host_bandwidth"), AppendJsonDouble(out, plan.link.to_host);
  number("copy_latency_ns", plan.link.latency);
  key("predicted");
  out += fmt::format("{{\"time_ns\": {}, \"peak_bytes\": {}, \"plain_time_ns\": {}, \"plain_peak_bytes\": {}}}",
                     plan.time, plan.peak, plan.plain_time, plan.plain_peak);
  if (!plan.order.empty()) {
    std::vector<std::int32_t> order;
    for (const OpId op : plan.order) order.push_back(op.value);
    key("order"), AppendRow(out, order);
  }
  const auto again = Recomputations(plan.schedule.steps);
  number("ops", static_cast<std::int64_t>(plan.schedule.steps.size() - again.size()));
  key("recompute"), out += '[';
  for (std::size_t i = 0; i < again.size(); ++i) {
    if (i > 0) out += ',';
    AppendRow(out, std::array{again[i].first.value, again[i].second.value});
  }
  out += ']';
  key("columns");
  out += fmt::format(
      "[\"storage\", \"from step\", \"to step\", \"begin: {}\", \"end: {}\", \"leaves at step\", \"turn\", "
      "\"address\"]",
      fmt::join(kBegins, "|"), fmt::join(kEnds, "|"));
  key("stays"), out += '[';
  for (const sim::StayId i : plan.schedule.stays.ids()) {
    const sim::Stay& stay = plan.schedule.stays[i];
    out += i > sim::StayId(0) ? ",\n    " : "\n    ";
    AppendRow(out, std::array<std::int64_t, 8>{
                       stay.storage.value, stay.from.value, stay.to.value, static_cast<std::int64_t>(stay.begin),
                       static_cast<std::int64_t>(stay.end), stay.leave.value, stay.turn, stay.address});
  }
  out += "\n  ]";
  key("workspaces"), out += '[';
  bool first = true;
  for (const StepId k : plan.schedule.workspace_address.ids()) {
    if (plan.schedule.workspace_address[k] < 0) continue;
    if (!std::exchange(first, false)) out += ',';
    AppendRow(out, std::array<std::int64_t, 2>{k.value, plan.schedule.workspace_address[k]});
  }
  out += "],";
  const std::string checksum = ChecksumOf(out);
  out += kChecksumKey;
  AppendJsonString(out, checksum);
  out += "\n}\n";
  return out;
}

Result<Plan> ParsePlan(std::string_view text, const std::string& place) {
  Result<Plan> plan = Parser(text, place).Run();
  if (!plan) return plan;
  const std::size_t end = text.rfind(kChecksumKey);
  const std::string expected = end == std::string_view::npos ? "" : ChecksumOf(text.substr(0, end));
  std::string found(end == std::string_view::npos ? "" : text.substr(end + kChecksumKey.size()));
  if (found != fmt::format("\"{}\"\n}}\n", expected)) {
    return Fail("{}: checksum: expected that of the text before it; the plan was changed after it was written", place);
  }
  return plan;
}

namespace {

Status CheckHash(const Plan& plan, const TrainingGraph& graph) {
  const std::string hash = GraphHash(graph);
  if (plan.graph_hash == hash) return {};
  return Fail("the plan is for {} (graph {}), not for this graph ({})", plan.graph_name, plan.graph_hash, hash);
}

}  // namespace

Status CheckPlan(const Plan& plan, const TrainingGraph& graph) {
  if (!plan.order.empty()) {
    EBB_ASSIGN_OR_RETURN(const Ordered ordered, InItsOrder(graph, plan));
    return CheckPlan(ordered.plan, ordered.graph);
  }
  EBB_RETURN_IF_ERROR(CheckHash(plan, graph));
  return Validate(graph, plan.schedule, {.budget = plan.budget, .alignment = plan.alignment, .needs_addresses = true});
}

Result<Ordered> InItsOrder(const TrainingGraph& graph, Plan plan) {
  EBB_RETURN_IF_ERROR(CheckHash(plan, graph));
  if (plan.order.empty()) return Ordered{.graph = graph, .plan = std::move(plan)};
  EBB_RETURN_IF_ERROR(ValidateOrder(graph, plan.order));
  Ordered out{.graph = Reordered(graph, plan.order), .plan = std::move(plan)};
  EBB_RETURN_IF_ERROR(Check(out.graph));
  out.plan.order.clear();
  out.plan.graph_hash = GraphHash(out.graph);
  return out;
}

}  // namespace ebbtide::plan
