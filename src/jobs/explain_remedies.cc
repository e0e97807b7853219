// Weighs what was held against what was missing.
#include "jobs/explain_remedies.h"

#include <algorithm>

#include "device/profile.h"
#include "trace/replay.h"

namespace ebbtide::jobs {
namespace {

constexpr const char* kExpandable = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
constexpr double kShareOfEightBit = 0.75;  // that an optimizer with 8-bit state saves of one with 32-bit state

Bytes Held(const ExplainResult& result, const std::string& category) {
  const auto found = result.held.find(category);
  return found == result.held.end() ? 0 : found->second;
}

// What was wanted beyond what there was.
Bytes Missing(const ExplainResult& result) {
  if (!result.out_of_memory || !result.available) return 0;
  return std::max<Bytes>(0, result.reserved - result.cached + result.requested - *result.available);
}

bool Replays(const trace::Trace& trace, std::string_view options, Bytes capacity) {
  const auto choice = alloc::ChooseAllocator("pytorch", std::string(options), trace::ReplayModels());
  if (!choice) return false;
  alloc::DeviceMemory device({.total = capacity, .taken = 0});
  alloc::Streams streams;
  const auto allocator = alloc::MakeAllocator(*choice, device, streams);
  const auto replayed = trace::Replay(trace, *allocator, device, streams, {});
  return replayed && !replayed->out_of_memory;
}

void AddLeaks(ExplainResult& out) {
  for (const LeakedLine& leak : out.leaks) {
    if (leak.bytes_per_iteration <= 0) continue;
    out.remedies.push_back(fmt::format(
        "{} leaves {} behind in every iteration: keep numbers (`loss.item()`) or detached copies on the "
        "host, not tensors that hold their graph",
        leak.line.empty() ? "a place without a recorded line" : leak.line, FormatBytes(leak.bytes_per_iteration)));
  }
}

void AddFragmentation(ExplainResult& out, std::optional<bool> fits_expandable) {
  if (fits_expandable && *fits_expandable) {
    out.remedies.push_back(fmt::format(
        "{}: the recorded requests, the one that failed among them, fit then (replayed through a model of it)",
        kExpandable));
    return;
  }
  if (fits_expandable) {
    out.notes.push_back("expandable segments would not have been enough: the recorded requests fail with them too");
    return;
  }
  const Bytes missing = Missing(out);
  if (missing > 0 && out.fragmentation >= missing) {
    out.remedies.push_back(
        fmt::format("{}: {} were free in pieces, {} were missing; whether they come together depends on the order of "
                    "requests, which only a snapshot tells",
                    kExpandable, FormatBytes(out.fragmentation), FormatBytes(missing)));
  }
}

// Activations, inputs and temporaries grow with the batch; the rest does not.
void AddBatch(ExplainResult& out) {
  const Bytes missing = Missing(out);
  const Bytes grows = Held(out, "activation") + Held(out, "input") + Held(out, "temporary") + out.requested;
  if (missing <= 0 || out.held.contains("unknown") || grows <= missing) return;
  const double share = static_cast<double>(grows - missing) / static_cast<double>(grows);
  out.remedies.push_back(
      fmt::format("a batch of at most {:.0f} % of this one, with accumulation for the same numbers: {} of {} grow with "
                  "it (assumed: in proportion), {} were missing at this moment; later moments may need more",
                  100 * share, FormatBytes(grows), FormatBytes(out.allocated + out.requested), FormatBytes(missing)));
}

void AddMeasures(ExplainResult& out) {
  const Bytes missing = Missing(out);
  const Bytes activations = Held(out, "activation"), state = Held(out, "optimizer_state");
  if (activations > missing && activations * 4 > out.allocated) {
    out.remedies.push_back(fmt::format(
        "activation checkpointing, or a plan (`ebbtide plan`, `ebbtide.step(budget=...)`): activations are {}",
        FormatBytes(activations)));
  }
  if (const Bytes saved = static_cast<Bytes>(kShareOfEightBit * static_cast<double>(state));
      saved > 0 && (saved > missing || state * 4 > out.allocated)) {
    out.remedies.push_back(
        fmt::format("an optimizer with 8-bit state saves about {} of its {}", FormatBytes(saved), FormatBytes(state)));
  }
}

void AddGpu(ExplainResult& out) {
  if (!out.out_of_memory || !out.available) return;
  const Bytes needs = out.reserved - out.cached + out.requested;
  const DeviceProfile* best = nullptr;
  for (const DeviceProfile& gpu : BuiltInProfiles()) {
    if (gpu.memory - gpu.context < needs || gpu.memory <= out.capacity.value_or(*out.available)) continue;
    if (best == nullptr || gpu.memory < best->memory) best = &gpu;
  }
  if (best == nullptr) return;
  out.remedies.push_back(
      fmt::format("a GPU with more memory: {} were needed at this moment, as a {} has; later moments "
                  "may need more (`ebbtide estimate`)",
                  FormatBytes(needs), best->name));
}

}  // namespace

std::optional<bool> FitsWithExpandableSegments(std::string_view pickle, const ExplainRequest& request,
                                               const trace::HeldMemory& memory) {
  if (!memory.failed || memory.expandable) return std::nullopt;
  auto trace = trace::ParseTorchSnapshot(pickle, request.path, {.device = request.device});
  if (!trace) return std::nullopt;
  const auto failed = std::find_if(trace->events.begin(), trace->events.end(), [&](const trace::TraceEvent& event) {
    return event.action == trace::Action::kOutOfMemory && event.place == memory.moment;
  });
  if (failed == trace->events.end()) return std::nullopt;
  failed->action = trace::Action::kAllocate;
  failed->block = trace->blocks++;
  failed->bytes = memory.failed->bytes;
  if (!failed->stream.valid()) failed->stream = trace::StreamId(0);
  trace->events.erase(failed + 1, trace->events.end());
  const Bytes available = memory.reserved + memory.failed->device_free;
  if (Replays(*trace, "", available)) return std::nullopt;
  return Replays(*trace, "expandable_segments:True", available);
}

void AddRemedies(ExplainResult& out, std::optional<bool> fits_expandable) {
  AddLeaks(out);
  if (out.other_processes && *out.other_processes >= std::max<Bytes>(Missing(out), 1)) {
    out.remedies.push_back(fmt::format("end the other processes on this GPU: they hold {}, {} were missing",
                                       FormatBytes(*out.other_processes), FormatBytes(Missing(out))));
  }
  AddFragmentation(out, fits_expandable);
  AddBatch(out);
  AddMeasures(out);
  AddGpu(out);
}

}  // namespace ebbtide::jobs
