// Fills the template of src/report/page with the data of a plan, reduced to what a screen can show.
#include "report/page/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "report/about.h"
#include "report/json/plan.h"
#include "report/labels.h"
#include "report/memory_timeline.h"
#include "report/page/page.h"
#include "report/page/texts.h"
#include "report/text/plan.h"

namespace ebbtide::report {
namespace {

using jobs::PlanResult;
using plan::MovedStorage;
using plan::Stall;

constexpr std::size_t kMostSpans = 30'000;   // of one stream: more are joined
constexpr std::size_t kMostSamples = 8'000;  // of memory over time
constexpr std::size_t kMostStalls = 20'000;  // the longest
constexpr std::size_t kListed = 16;          // storages of each table

MemoryCategory CategoryOf(StorageKind kind) {
  switch (kind) {
    case StorageKind::kParameter: return MemoryCategory::kParameter;
    case StorageKind::kBuffer: return MemoryCategory::kBuffer;
    case StorageKind::kGradient: return MemoryCategory::kGradient;
    case StorageKind::kOptimizerState: return MemoryCategory::kOptstate;
    case StorageKind::kInput: return MemoryCategory::kOther;
    case StorageKind::kActivation: return MemoryCategory::kActivation;
    case StorageKind::kTemporary: return MemoryCategory::kTemp;
  }
  return MemoryCategory::kOther;
}

// Texts of the page, each once.
class Texts {
 public:
  int Of(std::string text) {
    const auto [at, is_new] = index_.try_emplace(std::move(text), static_cast<int>(index_.size()));
    if (is_new) list_.push_back(at->first);
    return at->second;
  }
  const Json& list() const { return list_; }

 private:
  std::unordered_map<std::string, int> index_;
  Json list_ = Json::array();
};

// What the page shows of one plan.
class Drawing {
 public:
  explicit Drawing(const PlanResult& result)
      : graph_(*result.graph),
        workload_(*result.workload),
        schedule_(result.planned.plan->schedule),
        outcome_(result.planned.outcome),
        summary_(result.summary) {}

  void Fill(Json& data) {
    data["memory"] = Memory();
    data["tracks"] = {Track(sim::Stream::kCompute), Track(sim::Stream::kToHost), Track(sim::Stream::kToDevice)};
    if (outcome_.exchange > 0) data["tracks"].push_back(Track(sim::Stream::kExchange));
    data["stalls"] = Stalls();
    data["moved"] = Moved();
    data["texts"] = texts_.list();
  }

 private:
  // By sample: when it begins, bytes by category, and what the plain step has at the same op. Where steps are too many,
  // the one of each group that takes most stands for it.
  Json Memory() const {
    const std::size_t steps = schedule_.steps.size();
    using BySteps = IdVector<sim::StepId, Bytes>;
    std::vector<BySteps> by(kMemoryCategories, BySteps(steps + 1, 0));
    for (const sim::Stay& stay : schedule_.stays) {
      auto& of_category = by[static_cast<std::size_t>(CategoryOf(graph_.storage(stay.storage).kind))];
      of_category[stay.from] += workload_.bytes[stay.storage];
      of_category[stay.to] -= workload_.bytes[stay.storage];
    }
    const BySteps workspace = sim::StepWorkspace(workload_, schedule_);
    BySteps all(steps, 0);
    for (std::size_t c = 0; c < kMemoryCategories; ++c) {
      for (const sim::StepId k : all.ids()) {
        by[c][k.Next()] += by[c][k];
        if (c == static_cast<std::size_t>(MemoryCategory::kTemp)) continue;
        all[k] += by[c][k];
      }
    }
    auto& temporary = by[static_cast<std::size_t>(MemoryCategory::kTemp)];
    for (const sim::StepId k : all.ids()) {
      temporary[k] += workspace[k];
      all[k] += temporary[k];
    }
    const BySteps plain = PlainBySteps();
    const std::size_t group = (steps + kMostSamples - 1) / kMostSamples;
    Json at = Json::array(), columns = Json::array(), without = Json::array();
    for (std::size_t c = 0; c < kMemoryCategories; ++c) columns.push_back(Json::array());
    for (std::size_t k = 0; k < steps; k += group) {
      const std::size_t end = std::min(k + group, steps);
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(k);
      const auto most = std::max_element(first, all.begin() + static_cast<std::ptrdiff_t>(end)) - all.begin();
      at.push_back(outcome_.boundary[sim::StepId(k)]);
      for (std::size_t c = 0; c < kMemoryCategories; ++c) {
        columns[c].push_back(by[c][sim::StepId(static_cast<std::size_t>(most))]);
      }
      without.push_back(*std::max_element(plain.begin() + static_cast<std::ptrdiff_t>(k),
                                          plain.begin() + static_cast<std::ptrdiff_t>(end)));
    }
    return {{"at", at}, {"by", columns}, {"plain", without}};
  }

  // While an op runs again, what the plain step has at the op that waits for it.
  IdVector<sim::StepId, Bytes> PlainBySteps() const {
    const IdVector<OpId, Bytes> profile = sim::PlainProfile(workload_);
    IdVector<sim::StepId, Bytes> out(schedule_.steps.size());
    const IdVector<sim::StepId, bool> again = sim::RunsAgain(workload_, schedule_);
    Bytes next = 0;
    for (std::size_t i = out.size(); i-- > 0;) {
      const sim::StepId k(i);
      if (!again[k]) next = profile[schedule_.steps[k]];
      out[k] = next;
    }
    return out;
  }

  // 0 to 2: ops of the phases; 3: run again. Copies and collectives: always 0.
  static int ClassOf(const TrainingGraph& graph, const sim::Span& span) {
    if (span.stream != sim::Stream::kCompute) return 0;
    return span.again ? 3 : static_cast<int>(graph.op(span.op).phase);
  }

  // Spans in order, each by the time since the last one ended, its length, class, text and count: neighbours without a
  // gap are joined where there are too many.
  Json Track(sim::Stream stream) {
    std::vector<const sim::Span*> spans;
    for (const sim::Span& span : outcome_.timeline) {
      if (span.stream == stream && span.end > span.begin) spans.push_back(&span);
    }
    const std::size_t group = (spans.size() + kMostSpans - 1) / kMostSpans;
    Json gaps = Json::array(), lengths = Json::array(), classes = Json::array(), texts = Json::array();
    Json counts = Json::array();
    Nanos last = 0;
    for (std::size_t i = 0; i < spans.size();) {
      const int type = ClassOf(graph_, *spans[i]);
      std::size_t end = i + 1;
      while (end < spans.size() && end - i < group && spans[end]->begin == spans[end - 1]->end &&
             ClassOf(graph_, *spans[end]) == type) {
        ++end;
      }
      gaps.push_back(spans[i]->begin - last);
      last = spans[end - 1]->end;
      lengths.push_back(last - spans[i]->begin);
      classes.push_back(type);
      texts.push_back(texts_.Of(LabelOf(*spans[i])));
      counts.push_back(end - i);
      i = end;
    }
    return {{"gap", gaps}, {"length", lengths}, {"class", classes}, {"text", texts}, {"count", counts}};
  }

  std::string LabelOf(const sim::Span& span) const {
    return span.op.valid() ? OpLabel(graph_, span.op) : StorageLabel(graph_, workload_, span.storage);
  }

  // [begin, length, cause, op's text or -1, storage's text or -1, storage's bytes], in order.
  Json Stalls() {
    std::vector<Stall> longest = summary_.stalls;
    std::ranges::stable_sort(longest, std::greater<>(), &Stall::length);
    longest.resize(std::min(longest.size(), kMostStalls));
    std::ranges::sort(longest, {}, &Stall::begin);
    Json out = Json::array();
    for (const Stall& stall : longest) {
      const int op = stall.op.valid() ? texts_.Of(OpLabel(graph_, stall.op)) : -1;
      const bool known = stall.storage.valid();
      out.push_back({stall.begin, stall.length(), static_cast<int>(stall.cause), op,
                     known ? texts_.Of(StorageLabel(graph_, workload_, stall.storage)) : -1,
                     known ? workload_.bytes[stall.storage] : 0});
    }
    return out;
  }

  // [bytes, text, swapped, returns, leaves, comes, cost], the largest of each sort.
  Json Moved() {
    Json out = Json::array();
    for (const bool swapped : {true, false}) {
      std::size_t count = 0;
      for (const MovedStorage& moved : summary_.moved) {
        if (moved.swapped != swapped || ++count > kListed) continue;
        out.push_back({moved.bytes, texts_.Of(StorageLabel(graph_, workload_, moved.storage)), swapped ? 1 : 0,
                       moved.returns, moved.leaves, moved.comes, moved.cost});
      }
    }
    return out;
  }

  const TrainingGraph& graph_;
  const sim::Workload& workload_;
  const sim::Schedule& schedule_;
  const sim::Outcome& outcome_;
  const plan::Summary& summary_;
  Texts texts_;
};

Json DataOf(const PlanResult& result) {
  Json data = PlanJson(result);
  data["subtitle"] =
      fmt::format("plan of policy {} for {} on {}", result.policy, FormatBytes(result.budget), result.gpu);
  About about;
  AddStepFacts(about, result.model, *result.graph);
  about.Add("GPU", result.gpu);
  about.Add("policy", result.policy);
  about.Add("budget", FormatBytes(result.budget));
  about.verdict = result.feasible() ? Verdict::kGood : Verdict::kBad;
  about.says = result.feasible() ? fmt::format("Feasible: the peak is {}", FormatBytes(result.planned.plan->peak))
                                 : fmt::format("Infeasible: the smallest budget found to work is {}",
                                               FormatBytes(result.minimum.found));
  data["about"] = AboutJson(about);
  data["failures"] = InfeasibleLines(result);
  data["bounded"] = std::ranges::any_of(result.pareto, [](const auto& point) { return point.lower_bound > 0; });
  data["categories"] = Json::array();
  for (std::size_t c = 0; c < kMemoryCategories; ++c) {
    data["categories"].push_back(Name(static_cast<MemoryCategory>(c)));
  }
  if (result.feasible()) Drawing(result).Fill(data);
  return data;
}

}  // namespace

std::string PlanPage(const jobs::PlanResult& result) {
  return FillPage({.body = kPlanHtml,
                   .css = std::string(kPageCss) + kPlanCss,
                   .js = std::string(kWordsJs) + kReachJs + kTimelineJs + kCurveJs + kPlanJs,
                   .remark = "Times are predicted by its simulator",
                   .title = result.model + " · plan",
                   .data = DataOf(result)});
}

}  // namespace ebbtide::report
