// ebbtide.native: pools that several engines share, and who decides how.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>

#include "engine.h"
#include "graph/json.h"
#include "job_call.h"
#include "share/scheduler/arrange.h"

namespace ebbtide::core {
namespace {

std::shared_ptr<SharedPool> MakeSharedPool(const Pool& pool) {
  auto out = std::make_shared<SharedPool>();
  out->pool = pool;
  out->scheduler = std::make_unique<share::PoolScheduler>(
      share::DispatcherOptions{.pipeline = {.capacity = pool.device->capacity()}, .runs_ahead = pool.gpu != nullptr});
  return out;
}

// Name, graph, plan, policy, weight, priority.
using Member = std::tuple<std::string, Graph, Plan, std::string, std::int64_t, int>;

// What Python calls of share::Arranger. From any thread.
class SharedArranger {
  // One question at a time.
  template <class Question>
  auto Ask(const Question& question) {
    return RunJob({.progress = nb::none()}, [&](const jobs::JobContext& context) {
      const std::lock_guard lock(mutex_);
      stop_ = context.stop;
      auto answer = question();
      stop_ = {};
      return answer;
    });
  }

 public:
  // `link`: bytes per second each way. `product`: the GPU by its name; where it is not known, and on the CPU, each op
  // takes `share` of the device.
  SharedArranger(Bytes capacity, int groups, double link, const std::string& product, double share, int threads)
      : arranger_(OptionsOf(capacity, groups, link, threads)) {
    use_.share = share;
    const auto known = std::ranges::find(BuiltInProfiles(), product, &DeviceProfile::product);
    if (known != BuiltInProfiles().end()) use_.gpu = *known;
  }

  nb::dict Arrange(const std::vector<Member>& members) {
    const share::Mix mix = Ask([&]() -> Result<share::Mix> {
      std::vector<std::shared_ptr<const share::Training>> trainings;
      for (const Member& member : members) {
        EBB_ASSIGN_OR_RETURN(auto training, TrainingOf(member));
        trainings.push_back(std::move(training));
      }
      return arranger_.Arrange(trainings);
    });
    nb::dict out;
    out["fits"] = mix.fits;
    out["needed_bytes"] = mix.needed;
    out["round_ns"] = mix.together.round;
    out["overlap"] = mix.together.overlap();
    out["start_at_ebb"] = mix.start_at_ebb;
    out["join_order"] = nb::cast(mix.join_order);
    nb::list jobs;
    for (std::size_t i = 0; i < mix.jobs.size(); ++i) {
      nb::dict job = Fields(mix.jobs[i]);
      job["lane"] = mix.fits ? mix.lanes[i] : share::kAnyLane;
      jobs.append(job);
    }
    out["jobs"] = jobs;
    return out;
  }

  std::optional<nb::dict> Within(const Member& member, Bytes room) {
    const std::optional<share::Job> job = Ask([&]() -> Result<std::optional<share::Job>> {
      EBB_ASSIGN_OR_RETURN(const auto training, TrainingOf(member));
      return arranger_.Within(training, room);
    });
    if (!job) return std::nullopt;
    return Fields(*job);
  }

 private:
  share::MixOptions OptionsOf(Bytes capacity, int groups, double link, int threads) {
    share::MixOptions options;
    options.capacity = capacity;
    options.cut.groups = groups;
    options.link = {.to_device = link, .to_host = link};
    options.threads = threads;
    options.stop = [this] { return stop_ && stop_(); };
    return options;
  }

  // Steps that are alike are one training: placed and planned once. Their texts are compared only where the objects are
  // not the same.
  Result<std::shared_ptr<const share::Training>> TrainingOf(const Member& member) {
    const auto& [name, graph, plan, policy, weight, priority] = member;
    auto& known = by_object_[{graph.value, plan.value, policy, weight, priority}];
    if (known) return known;
    auto& alike = by_text_[{ToJson(*graph.value), plan::PlanJson(*plan.value), policy, weight, priority}];
    if (!alike) {
      share::TrainingOptions options{.model = name, .weight = weight, .priority = priority, .policy = policy};
      options.alignment = plan.value->alignment;
      options.own_plan = plan.value;
      alike = share::MakeMeasuredTraining(std::move(options), *graph.value, use_);
    }
    return known = alike;
  }

  // The plan is None where it is the step's own.
  static nb::dict Fields(const share::Job& job) {
    nb::dict out;
    out["plan"] = job.plan == job.training->own_plan ? nb::none() : nb::cast(Plan{job.plan});
    out["height_limit"] = job.height_limit;
    out["state_bytes"] = job.placement.state;
    out["height_bytes"] = job.placement.height;
    return out;
  }

  std::mutex mutex_;
  std::function<bool()> stop_;  // of who asks now
  share::Arranger arranger_;
  share::DeviceUse use_;
  template <class Graph, class Plan>
  using Trainings =
      std::map<std::tuple<Graph, Plan, std::string, std::int64_t, int>, std::shared_ptr<const share::Training>>;
  Trainings<std::shared_ptr<const TrainingGraph>, std::shared_ptr<const plan::Plan>> by_object_;
  Trainings<std::string, std::string> by_text_;
};

}  // namespace

void AddShare(nb::module_& module) {
  nb::class_<SharedPool>(module, "SharedPool",
                         "A pool that several engines share. See src/share/scheduler/pool_scheduler.h.")
      .def(nb::new_(&MakeSharedPool), nb::arg("pool"))
      .def_prop_ro(
          "held", [](const SharedPool& shared) { return shared.pool.device->holdings()->held(); },
          "Bytes that steps hold now.")
      .def_prop_ro(
          "held_peak", [](const SharedPool& shared) { return shared.pool.device->holdings()->peak(); },
          "The most at once.")
      .def("reset_peak", [](const SharedPool& shared) { shared.pool.device->holdings()->ResetPeak(); })
      .def(
          "set_start_at_ebb", [](const SharedPool& shared, bool at_ebb) { shared.scheduler->SetStartAtEbb(at_ebb); },
          nb::arg("at_ebb"), "Whether iterations begin when others in the lane have passed their peak.")
      .def_prop_ro("waits", [](const SharedPool& shared) { return shared.pool.gpu ? shared.pool.gpu->waits() : 0; });
  nb::class_<SharedArranger>(
      module, "SharedArranger",
      "Decides lanes, plans and turns of steps that share a pool, as `ebbtide share` does, and keeps the plans it has "
      "made. A member is (name, graph, plan, policy, weight, priority). See src/share/scheduler/arrange.h.")
      .def(nb::init<Bytes, int, double, const std::string&, double, int>(), nb::arg("capacity"), nb::arg("groups"),
           nb::arg("link"), nb::arg("product"), nb::arg("share"), nb::arg("threads"))
      .def("arrange", &SharedArranger::Arrange, nb::arg("members"),
           "fits, needed_bytes, round_ns, overlap, start_at_ebb, join_order, and of each job lane, plan (None: its "
           "own), "
           "height_limit, state_bytes, height_bytes.")
      .def(
          "within", &SharedArranger::Within, nb::arg("member"), nb::arg("room"),
          "plan, height_limit, state_bytes and height_bytes of a job that takes at most so much of a lane; None: there "
          "is no plan for that.");
}

}  // namespace ebbtide::core
