// One allocator per GPU, made at its first use and never freed, behind a lock of its own.
#include "tide/c_interface.h"

#include <array>
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "tide/block_table.h"
#include "tide/cuda_device.h"
#include "tide/tide.h"

namespace ebbtide::tide {
namespace {

struct Gpu {
  explicit Gpu(std::unique_ptr<CudaTideDevice> gpu) : cuda(std::move(gpu)), tide(*cuda) {}

  std::mutex mutex;  // of all below
  const std::unique_ptr<CudaTideDevice> cuda;
  TideAllocator tide;
  BlockTable blocks;
  std::vector<JobId> jobs;  // by stream

  JobId JobOf(StreamId stream) const { return stream.index() < jobs.size() ? jobs[stream.index()] : JobId(); }
};

constexpr int kMostDevices = 64;
std::array<std::atomic<Gpu*>, kMostDevices> devices;  // never freed: tensors outlive everything else
std::atomic<void (*)(const char*)> on_out_of_memory = nullptr;
thread_local std::string last_error, last_statistics;

Gpu* Find(int ordinal) {
  return ordinal >= 0 && ordinal < kMostDevices ? devices[static_cast<std::size_t>(ordinal)].load() : nullptr;
}

Gpu* FindOrMake(int ordinal) {
  if (Gpu* const known = Find(ordinal)) return known;
  if (ordinal < 0 || ordinal >= kMostDevices) {
    last_error = fmt::format("device cuda:{}: expected 0 to {}", ordinal, kMostDevices - 1);
    return nullptr;
  }
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (Gpu* const known = Find(ordinal)) return known;
  Result<std::unique_ptr<CudaTideDevice>> made = CudaTideDevice::Make(ordinal);
  if (!made) {
    last_error = made.error().message;
    return nullptr;
  }
  Gpu* const gpu = new Gpu(std::move(*made));
  devices[static_cast<std::size_t>(ordinal)] = gpu;
  return gpu;
}

int Answer(const Status& status) {
  if (status) return 0;
  last_error = status.error().message;
  return -1;
}

// As PyTorch's own begins.
std::string OutOfMemory(Gpu& gpu, int ordinal, Bytes bytes, JobId job) {
  const TideAllocator::Statistics counted = gpu.tide.statistics();
  std::string text = fmt::format(
      "CUDA out of memory. Tried to allocate {}. GPU {} has a total capacity of {} of which {} is free. The tide "
      "allocator has {}, of which {} is allocated.",
      FormatBytes(bytes), ordinal, FormatBytes(gpu.cuda->total()), FormatBytes(gpu.cuda->free_memory()),
      FormatBytes(counted.reserved), FormatBytes(counted.allocated));
  if (const auto its = counted.jobs.find(job); its != counted.jobs.end()) {
    text += fmt::format(" Job {} has {}; it is guaranteed {}", job.value, FormatBytes(its->second.charged),
                        FormatBytes(its->second.quota.guaranteed));
    text += its->second.quota.limit < kTooLarge
                ? fmt::format(" and limited to {}.", FormatBytes(its->second.quota.limit))
                : std::string(".");
  }
  return text;
}

// Null, and why.
void* Allocate(ssize_t bytes, int ordinal, void* stream, std::string& message) {
  Gpu* const gpu = FindOrMake(ordinal);
  if (!gpu) {
    message = last_error;
    return nullptr;
  }
  const std::lock_guard lock(gpu->mutex);
  const CudaPrimary::Current current(gpu->cuda->primary());
  const StreamId id = gpu->cuda->IdOf(static_cast<CudaStream>(stream));
  const JobId job = gpu->JobOf(id);
  if (const auto block = gpu->tide.Allocate(bytes, id, job)) {
    gpu->blocks.Insert(block->address, block->id);
    return reinterpret_cast<void*>(block->address);
  }
  message = OutOfMemory(*gpu, ordinal, bytes, job);
  return nullptr;
}

nlohmann::json Json(const TideAllocator::Counts& counts) {
  static constexpr std::array kNames = {"same_stream", "ordered", "completed", "scheduled", "grown"};
  nlohmann::json classes = nlohmann::json::object();
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    classes[kNames[i]] = {{"requests", counts.met[i]}, {"bytes", counts.met_bytes[i]}};
  }
  return {{"allocated_bytes", counts.allocated},
          {"peak_allocated_bytes", counts.allocated_peak},
          {"waits", counts.waits},
          {"out_of_memory", counts.out_of_memory},
          {"classes", classes}};
}

}  // namespace
}  // namespace ebbtide::tide

using namespace ebbtide;
using namespace ebbtide::tide;

#define EBB_EXPORT extern "C" __attribute__((visibility("default")))

EBB_EXPORT void* ebbtide_tide_malloc(ssize_t bytes, int ordinal, void* stream) {
  std::string message;
  void* const address = Allocate(bytes, ordinal, stream, message);
  if (const auto handler = on_out_of_memory.load(); !address && handler) handler(message.c_str());
  return address;
}

EBB_EXPORT void* ebbtide_tide_pool_malloc(ssize_t bytes, int ordinal, void* stream) {
  std::string message;
  return Allocate(bytes, ordinal, stream, message);
}

EBB_EXPORT void ebbtide_tide_free(void* address, ssize_t /*bytes*/, int ordinal, void* /*stream*/) {
  Gpu* const gpu = Find(ordinal);
  if (!gpu || !address) return;
  const std::lock_guard lock(gpu->mutex);
  const CudaPrimary::Current current(gpu->cuda->primary());
  const BlockId block = gpu->blocks.Remove(reinterpret_cast<Address>(address));
  if (block.valid()) gpu->tide.Free(block);
}

EBB_EXPORT void ebbtide_tide_record_stream(void* address, void* stream) {
  for (const std::atomic<Gpu*>& entry : devices) {
    Gpu* const gpu = entry.load();
    if (!gpu) continue;
    const std::lock_guard lock(gpu->mutex);
    const BlockId block = gpu->blocks.Find(reinterpret_cast<Address>(address));
    if (!block.valid()) continue;
    const CudaPrimary::Current current(gpu->cuda->primary());
    return gpu->tide.RecordStream(block, gpu->cuda->IdOf(static_cast<CudaStream>(stream)));
  }
}

EBB_EXPORT void ebbtide_tide_empty_cache() {
  for (const std::atomic<Gpu*>& entry : devices) {
    Gpu* const gpu = entry.load();
    if (!gpu) continue;
    const std::lock_guard lock(gpu->mutex);
    const CudaPrimary::Current current(gpu->cuda->primary());
    gpu->tide.EmptyCache();
  }
}

EBB_EXPORT int ebbtide_tide_set_capacity(int ordinal, int64_t bytes) {
  Gpu* const gpu = FindOrMake(ordinal);
  return gpu ? Answer(gpu->tide.SetCapacity(bytes)) : -1;
}

EBB_EXPORT void ebbtide_tide_memory_fraction(double fraction, int ordinal) {
  Gpu* const gpu = FindOrMake(ordinal);
  if (!gpu || !(fraction >= 0 && fraction <= 1)) return;
  (void)gpu->tide.SetCapacity(static_cast<Bytes>(fraction * static_cast<double>(gpu->cuda->total())));
}

EBB_EXPORT int ebbtide_tide_set_quota(int ordinal, int job, int64_t guaranteed, int64_t limit) {
  Gpu* const gpu = FindOrMake(ordinal);
  if (!gpu) return -1;
  JobId id;
  id.value = job;
  return Answer(gpu->tide.SetQuota(id, {.guaranteed = guaranteed, .limit = limit < 0 ? kTooLarge : limit}));
}

EBB_EXPORT int ebbtide_tide_set_job(int ordinal, void* stream, int job) {
  Gpu* const gpu = FindOrMake(ordinal);
  if (!gpu) return -1;
  const std::lock_guard lock(gpu->mutex);
  const CudaPrimary::Current current(gpu->cuda->primary());
  const StreamId id = gpu->cuda->IdOf(static_cast<CudaStream>(stream));
  if (id.index() >= gpu->jobs.size()) gpu->jobs.resize(id.index() + 1);
  gpu->jobs[id.index()].value = job < 0 ? -1 : job;
  return 0;
}

EBB_EXPORT const char* ebbtide_tide_last_error() { return last_error.c_str(); }

EBB_EXPORT const char* ebbtide_tide_statistics(int ordinal) {
  Gpu* const gpu = Find(ordinal);
  if (!gpu) return nullptr;
  const TideAllocator::Statistics counted = gpu->tide.statistics();
  nlohmann::json out = Json(counted);
  out["reserved_bytes"] = counted.reserved;
  out["peak_reserved_bytes"] = counted.reserved_peak;
  out["given_back_bytes"] = counted.given_back;
  out["host_waits"] = counted.host_waits;
  out["jobs"] = nlohmann::json::object();
  for (const auto& [id, its] : counted.jobs) {
    nlohmann::json job = Json(its);
    job["guaranteed_bytes"] = its.quota.guaranteed;
    job["limit_bytes"] = its.quota.limit < kTooLarge ? nlohmann::json(its.quota.limit) : nlohmann::json();
    job["charged_bytes"] = its.charged;
    out["jobs"][std::to_string(id.value)] = job;
  }
  last_statistics = out.dump();
  return last_statistics.c_str();
}

EBB_EXPORT void ebbtide_tide_on_out_of_memory(void (*handler)(const char* message)) { on_out_of_memory = handler; }
