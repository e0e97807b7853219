// A process each, all at once, on unified memory that is larger than the device's. Before an op runs, the pages it
// touches are on the device: those that are not are fetched, after the least recently used ones have made room by going
// to the host. The driver moves pages and knows nothing of storages: what a dead storage has left in a pool's page is
// moved like any other bytes. In favour of paging: pages of 2 MiB move at the link's full speed, both ways at once,
// with one fault of 10 us each; each pool is laid out as low as ours.
#include <algorithm>
#include <list>

#include "share/baselines/baseline.h"

namespace ebbtide::share {
namespace {

constexpr Bytes kPage = 2 * kMiB;
constexpr Nanos kFault = 10'000;

class Pager : public OpenScheduler {
 public:
  Pager(const BaselineInput& input, Bytes capacity) : input_(input), capacity_(capacity / kPage) {
    for (const Job& job : input.jobs) {
      processes_.push_back({.address = IdVector<StorageId, Bytes>(job.training->workload.storages(), -1), .pages = {}});
      Process& process = processes_.back();
      const Placement& placement = job.placement;
      for (const StayId i : placement.schedule.stays.ids()) {
        const sim::Stay& stay = placement.schedule.stays[i];
        process.address[stay.storage] = placement.is_state[i] ? stay.address : placement.state + stay.address;
      }
      process.pages.resize(static_cast<std::size_t>((placement.state + placement.height) / kPage + 1));
    }
  }

  Nanos BeforeStep(std::size_t job, StepId step, double now) override {
    const sim::Workload& workload = input_.jobs[job].training->workload;
    const Placement& placement = input_.jobs[job].placement;
    const OpId op = placement.schedule.steps[step];
    ++clock_;
    std::int64_t in = 0, out = 0;
    const auto touch_bytes = [&](Bytes begin, Bytes bytes) {
      if (bytes == 0) return;
      for (Bytes page = begin / kPage; page <= (begin + bytes - 1) / kPage; ++page) in += Touch(job, page) ? 1 : 0;
    };
    for (const StorageId s : workload.needs[op]) touch_bytes(processes_[job].address[s], workload.bytes[s]);
    for (const StorageId s : workload.births[op]) touch_bytes(processes_[job].address[s], workload.bytes[s]);
    if (workload.workspace[op] > 0) {
      touch_bytes(placement.state + placement.schedule.workspace_address[step], workload.workspace[op]);
    }
    while (!order_.empty() && static_cast<Bytes>(order_.size()) > capacity_) {
      const auto [owner, number] = order_.front();
      Page& page = processes_[owner].pages[static_cast<std::size_t>(number)];
      if (page.used == clock_) break;  // all that is left is of this op
      order_.pop_front();
      page.where = Where::kHost;
      ++out;
    }
    moved += (in + out) * kPage;
    const Link& link = input_.options.link;
    double ready = now;
    if (out > 0) {
      out_free_ = std::max(out_free_, now) + static_cast<double>(link.TimeOut(out * kPage));
      ready = std::max(ready, out_free_);
    }
    if (in > 0) {
      in_free_ = std::max(in_free_, now) + static_cast<double>(link.TimeIn(in * kPage) + in * kFault);
      ready = std::max(ready, in_free_);
    }
    return static_cast<Nanos>(ready - now);
  }

  Bytes moved = 0;

 private:
  enum class Where : std::uint8_t { kNowhere, kHost, kDevice };
  using Order = std::list<std::pair<std::size_t, Bytes>>;  // process and page
  struct Page {
    Where where = Where::kNowhere;
    std::int64_t used = 0;
    Order::iterator at;
  };
  struct Process {
    IdVector<StorageId, Bytes> address;
    std::vector<Page> pages;
  };

  // Whether it has to be fetched.
  bool Touch(std::size_t job, Bytes number) {
    Page& page = processes_[job].pages[static_cast<std::size_t>(number)];
    page.used = clock_;
    if (page.where == Where::kDevice) {
      order_.splice(order_.end(), order_, page.at);
      return false;
    }
    const bool fetched = page.where == Where::kHost;
    page.where = Where::kDevice;
    page.at = order_.insert(order_.end(), {job, number});
    return fetched;
  }

  const BaselineInput& input_;
  const Bytes capacity_;  // in pages
  std::vector<Process> processes_;
  Order order_;  // on the device, least recently used first
  std::int64_t clock_ = 0;
  double in_free_ = 0, out_free_ = 0;
};

}  // namespace

BaselineResult RunPaging(const BaselineInput& input) {
  BaselineResult out{.name = "paging", .fits = true, .note = {}, .together = {}};
  for (const Job& job : input.jobs) out.memory += job.peak();
  const Bytes capacity = CapacityBesideContexts(input);
  if (capacity < kPage) {
    out.fits = false;
    out.note = "the contexts alone take more than there is";
    return out;
  }
  Pager scheduler(input, capacity);
  out.together = RunTogether(input.jobs, scheduler, input.options.together);
  if (scheduler.moved > 0) {
    const int rounds = input.options.together.warm_up + input.options.together.iterations;
    out.note = fmt::format("moves {} in a round", FormatBytes(scheduler.moved / std::max(1, rounds)));
  }
  return out;
}

}  // namespace ebbtide::share
