// Reads a trace and runs it through an allocator model.
#include "jobs/replay.h"

#include <memory>

#include "jobs/stop.h"

namespace ebbtide::jobs {
namespace {

Result<alloc::DeviceMemory::Options> DeviceOf(const ReplayRequest& request) {
  alloc::DeviceMemory::Options device;
  if (request.gpu) {
    if (request.capacity > 0) return Fail("--capacity: expected only one of --gpu and --capacity");
    device.total = request.gpu->memory;
    device.taken = request.gpu->context;
  } else if (request.capacity > 0) {
    device.total = request.capacity;
  }
  return device;
}

std::string GpuName(const ReplayRequest& request) {
  if (!request.gpu) return "";
  return request.gpu_name.empty() ? request.gpu->name : request.gpu_name;
}

}  // namespace

const trace::TraceEvent* ReplayResult::failed() const {
  if (replayed.failed_event < 0) return nullptr;
  return &trace.events[static_cast<std::size_t>(replayed.failed_event)];
}

std::string ReplayResult::StreamName(alloc::StreamId stream) const {
  return stream.valid() ? trace.streams[stream.index()] : "";
}

bool ReplayResult::IsExact() const {
  return replayed.recorded && replayed.recorded->segments == replayed.segments &&
         replayed.recorded->reserved_peak == replayed.usage.reserved_peak;
}

Result<ReplayResult> Replay(const ReplayRequest& request, const JobContext& context) {
  if (request.path.empty() && !request.in_hand) return Fail("expected a TRACE");
  EBB_ASSIGN_OR_RETURN(const alloc::AllocatorChoice choice,
                       alloc::ChooseAllocator(request.allocator, request.options, trace::ReplayModels()));
  EBB_ASSIGN_OR_RETURN(const alloc::DeviceMemory::Options memory, DeviceOf(request));
  StopSignal stop(context);
  ReplayResult out;
  if (request.in_hand) {
    out.trace = *request.in_hand;
  } else {
    EBB_ASSIGN_OR_RETURN(out.trace, trace::ReadTrace(request.path, {.device = request.device}));
  }
  alloc::DeviceMemory device(memory);
  alloc::Streams streams;
  const std::unique_ptr<alloc::Allocator> allocator = alloc::MakeAllocator(choice, device, streams);
  trace::ReplayOptions options;
  options.keep_going = request.keep_going;
  options.releases_are_the_programs = choice.pytorch.garbage_collection_threshold == 0;
  options.stop = stop.Function();
  EBB_ASSIGN_OR_RETURN(out.replayed, trace::Replay(out.trace, *allocator, device, streams, options));
  out.allocator = choice.model.name;
  out.options = request.options;
  out.gpu = GpuName(request);
  out.capacity = device.capacity();
  return out;
}

}  // namespace ebbtide::jobs
