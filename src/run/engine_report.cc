// What a step has done, and how long its ops take.
#include <algorithm>
#include <optional>

#include "run/engine.h"
#include "run/made_up.h"

namespace ebbtide::run {

using sim::kNone;

tl::expected<std::vector<Nanos>, Failure> Engine::Rehearse(int runs, bool one_thread) {
  by_thread_ = one_thread;
  std::vector<std::byte> random(runner_.RandomBytes());
  runner_.SaveRandom(random.data());
  StepCall call;
  for (const Scalar& scalar : graph_.scalars) call.scalars.push_back(scalar.value);
  std::vector<std::vector<Nanos>> times(graph_.ops.size());
  std::optional<Failure> failure;
  for (int i = 0; i <= runs && !failure; ++i) {
    for (std::size_t s = 0; s < itinerary().home.size(); ++s) {
      if (itinerary().home[s] < 0) continue;
      FillMadeUp(graph_, StorageId(s), *device_, itinerary().home[s]);
      runner_.Bind(static_cast<Index>(s), device_->At(itinerary().home[s]));
    }
    const auto report = Step(call);
    if (!report) failure = report.error();
    if (!report || i == 0) continue;  // the first makes tensors and pages
    for (std::size_t k = 0; k < report->step_time.size(); ++k) {
      if (!itinerary().visits[k].again) times[schedule().steps[k]].push_back(report->step_time[k]);
    }
  }
  runner_.LoadRandom(random.data());
  by_thread_ = false;
  if (failure) return tl::unexpected<Failure>(*std::move(failure));
  std::vector<Nanos> out;
  for (std::vector<Nanos>& each : times) {
    const auto middle = each.begin() + static_cast<std::ptrdiff_t>(each.size() / 2);
    std::ranges::nth_element(each, middle);
    out.push_back(each.empty() ? 0 : *middle);
  }
  return out;
}

void Engine::Describe() {
  for (const Span& span : spans_) *span.sum += device_->When(span.end) - device_->When(span.begin);
  for (sim::Span& interval : outcome_.timeline) {
    interval.begin = device_->When(interval.begin) - begin_;
    interval.end = device_->When(interval.end) - begin_;
  }
  for (std::vector<Nanos>* const moments : {&outcome_.boundary, &outcome_.released}) {
    for (Nanos& moment : *moments) moment = device_->When(moment) - begin_;
  }
  for (std::size_t g = 0; berth_.shared() && g < berth_.groups.size(); ++g) {
    const std::size_t end = g + 1 < berth_.groups.size() ? berth_.groups[g + 1] : schedule().steps.size();
    report_.groups.emplace_back(begin_ + outcome_.timeline[berth_.groups[g]].begin,
                                begin_ + outcome_.timeline[end - 1].end);
  }
  outcome_.time = report_.time;
  outcome_.peak = report_.live_peak;
  outcome_.recompute = report_.recompute;
  outcome_.wait_for_memory = report_.wait_for_memory;
  outcome_.wait_for_data = report_.wait_for_data;
  outcome_.drain = report_.drain;
  outcome_.copied_out = report_.copied_out;
  outcome_.copied_in = report_.copied_in;
  for (Index s = 0; s < swap_slot_.size(); ++s) outcome_.host_peak += swap_slot_[s] >= 0 ? workload_.bytes[s] : 0;
  outcome_.left.assign(schedule().stays.size(), 0);
  std::ranges::sort(queued_, {}, &Queued::ticket);
  for (const CopySpan& span : device_->TakeCopies()) {
    const auto queued = std::ranges::lower_bound(queued_, span.ticket, {}, &Queued::ticket);
    if (queued == queued_.end() || queued->ticket != span.ticket) continue;
    outcome_.timeline.push_back({queued->out ? sim::Stream::kToHost : sim::Stream::kToDevice, span.begin - begin_,
                                 span.end - begin_, kNone, schedule().stays[queued->stay].storage, false});
    if (queued->out) outcome_.left[queued->stay] = span.end - begin_;
  }
}

}  // namespace ebbtide::run
