// Reads what the processes of a dry run left, and gives it as JSON.
#include "report/dryrun.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <tuple>

#include "base/file.h"
#include "device/runtime.h"

namespace ebbtide::report {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kLargestFile = 64 * kMiB;

// The files are written by the program's own process, which may have been killed: whatever is missing counts as 0.
std::int64_t Int(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}
std::string Text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}
std::int64_t TallyOf(const Json& object, const char* key, const char* part = "count") {
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? Int(*found, part) : 0;
}
std::optional<std::int64_t> MaybeInt(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}
std::vector<std::string> Texts(const Json& object, const char* key) {
  std::vector<std::string> texts;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return texts;
  for (const Json& item : *found) {
    if (item.is_string()) texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::vector<Json> ObjectsOf(const Json& object, const char* key) {
  std::vector<Json> objects;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return objects;
  for (const Json& item : *found)
    if (item.is_object()) objects.push_back(item);
  return objects;
}

std::optional<Json> ReadObject(const std::string& path) {
  const Result<std::string> text = ReadFile(path, kLargestFile);
  if (!text) return std::nullopt;
  Json object = Json::parse(*text, nullptr, false);
  return object.is_object() ? std::optional(std::move(object)) : std::nullopt;
}

TorchFigures ReadTorch(const Json& object, int pid) {
  TorchFigures figures;
  figures.version = Text(object, "torch");
  figures.peak_reserved = Int(object, "peak_reserved_bytes");
  figures.peak_allocated = Int(object, "peak_allocated_bytes");
  figures.steps = Int(object, "steps");
  figures.peak_step = MaybeInt(object, "peak_step");
  figures.peak_line = Text(object, "peak_line");
  figures.allocated_step = MaybeInt(object, "peak_allocated_step");
  figures.allocated_line = Text(object, "peak_allocated_line");
  figures.ooms = Int(object, "ooms");
  figures.retries = Int(object, "retries");
  figures.stopped = object.value("stopped", Json(false)) == Json(true);
  figures.notes = Texts(object, "notes");
  figures.step_time = MaybeInt(object, "step_time_ns");
  figures.guessed_launches = Int(object, "guessed_launches");
  if (const auto rank = MaybeInt(object, "rank")) figures.rank = static_cast<int>(*rank);
  if (const auto size = MaybeInt(object, "world_size")) figures.world_size = static_cast<int>(*size);
  figures.device = static_cast<int>(Int(object, "device"));
  for (const Json& item : ObjectsOf(object, "devices")) {
    figures.devices.push_back({.index = static_cast<int>(Int(item, "index")),
                               .peak_reserved = Int(item, "peak_reserved_bytes"),
                               .peak_allocated = Int(item, "peak_allocated_bytes")});
  }
  if (const auto assumed = object.find("assumptions"); assumed != object.end() && assumed->is_array()) {
    for (const Json& item : *assumed) {
      if (!item.is_object()) continue;
      figures.assumptions.push_back({.line = Text(item, "line"),
                                     .what = Text(item, "what"),
                                     .led_to = Text(item, "led_to"),
                                     .assumed = Text(item, "assumed"),
                                     .count = Int(item, "count")});
    }
  }
  const auto list = object.find("oom_list");
  if (list == object.end() || !list->is_array()) return figures;
  for (const Json& item : *list) {
    if (!item.is_object()) continue;
    figures.oom_list.push_back({.pid = pid,
                                .step = MaybeInt(item, "step"),
                                .requested = Int(item, "requested_bytes"),
                                .allocated = Int(item, "allocated_bytes"),
                                .reserved = Int(item, "reserved_bytes"),
                                .free = Int(item, "free_bytes"),
                                .capacity = Int(item, "capacity_bytes"),
                                .stack = Texts(item, "stack")});
  }
  return figures;
}

DryrunProcess ReadProcess(const Json& object) {
  DryrunProcess process;
  process.pid = static_cast<int>(Int(object, "pid"));
  process.parent = static_cast<int>(Int(object, "parent_pid"));
  process.command = Text(object, "command");
  process.end = Text(object, "end");
  process.peak = Int(object, "peak_bytes");
  process.device_peak = std::max(process.peak, Int(object, "device_peak_bytes"));
  process.context = Int(object, "context_bytes");
  for (const Json& item : ObjectsOf(object, "gpus")) {
    process.gpus.push_back({.index = static_cast<int>(Int(item, "index")),
                            .number = static_cast<int>(Int(item, "number")),
                            .peak = Int(item, "peak_bytes"),
                            .device_peak = std::max(Int(item, "peak_bytes"), Int(item, "device_peak_bytes")),
                            .nccl = Int(item, "nccl_bytes")});
  }
  process.pinned_peak = Int(object, "pinned_peak_bytes");
  process.driver_ooms = TallyOf(object, "out_of_memory");
  process.host_reads = TallyOf(object, "host_reads");
  process.empty_host_reads = TallyOf(object, "empty_host_reads");
  process.empty_host_read_bytes = TallyOf(object, "empty_host_reads", "bytes");
  process.launches = Int(object, "launches");
  process.undeclared_launches = Int(object, "undeclared_launches");
  process.faults_injected = Int(object, "faults_injected");
  process.race_count = MaybeInt(object, "race_count");
  if (const auto races = object.find("races"); races != object.end() && races->is_array()) {
    process.races.assign(races->begin(), races->end());
  }
  if (const auto calls = object.find("not_modelled"); calls != object.end() && calls->is_object()) {
    for (const auto& [name, count] : calls->items()) {
      if (count.is_number_integer()) process.not_modelled[name] = count.get<std::int64_t>();
    }
  }
  return process;
}

Json OomJson(const DryrunOom& oom) {
  Json out = Json::object();
  out["pid"] = oom.pid;
  out["step"] = oom.step ? Json(*oom.step) : Json(nullptr);
  out["requested_bytes"] = oom.requested;
  out["allocated_bytes"] = oom.allocated;
  out["reserved_bytes"] = oom.reserved;
  out["free_bytes"] = oom.free;
  out["capacity_bytes"] = oom.capacity;
  out["stack"] = oom.stack;
  return out;
}

Json AssumptionJson(const DryrunAssumption& assumption) {
  Json out = Json::object();
  out["line"] = assumption.line;
  out["what"] = assumption.what;
  out["led_to"] = assumption.led_to;
  out["assumed"] = assumption.assumed;
  out["count"] = assumption.count;
  return out;
}

Json RankJson(const DryrunRank& rank) {
  Json out = Json::object();
  out["rank"] = rank.rank;
  out["gpu"] = rank.gpu;
  out["pid"] = rank.process->pid;
  out["peak_reserved_bytes"] = rank.peak_reserved;
  out["peak_allocated_bytes"] = rank.peak_allocated;
  out["total_bytes"] = rank.total;
  out["nccl_bytes"] = rank.nccl;
  out["steps"] = rank.process->torch->steps;
  const auto& time = rank.process->torch->step_time;
  out["step_time_ns"] = time ? Json(*time) : Json(nullptr);
  return out;
}

Json ProcessJson(const DryrunProcess& process) {
  Json out = Json::object();
  out["pid"] = process.pid;
  out["parent_pid"] = process.parent;
  out["command"] = process.command;
  out["end"] = process.end;
  out["peak_bytes"] = process.peak;
  out["context_bytes"] = process.context;
  out["pinned_peak_bytes"] = process.pinned_peak;
  out["launches"] = process.launches;
  if (!process.torch) return out;
  out["torch"] = process.torch->version;
  out["peak_reserved_bytes"] = process.torch->peak_reserved;
  out["peak_allocated_bytes"] = process.torch->peak_allocated;
  out["steps"] = process.torch->steps;
  out["ooms"] = process.torch->ooms;
  if (process.torch->rank) out["rank"] = *process.torch->rank;
  return out;
}

}  // namespace

const DryrunProcess* Dryrun::main() const {
  const DryrunProcess* best = nullptr;
  if (const auto all = ranks(); !all.empty()) return all[0].process;
  const auto weight = [](const DryrunProcess& p) {
    return std::pair(p.torch ? p.torch->peak_reserved : Bytes{0}, p.peak);
  };
  for (const DryrunProcess& process : processes) {
    if (best == nullptr || weight(process) > weight(*best)) best = &process;
  }
  return best;
}

bool Dryrun::observed() const {
  return lost.empty() && std::all_of(processes.begin(), processes.end(), [](const DryrunProcess& process) {
           return process.torch.has_value() || process.peak == 0;  // asked for something, and took nothing
         });
}

Bytes Dryrun::peak_reserved() const {
  if (const auto all = ranks(); !all.empty()) return all[0].peak_reserved;
  const DryrunProcess* process = main();
  return process != nullptr && process->torch ? process->torch->peak_reserved : 0;
}

Bytes Dryrun::peak_allocated() const {
  if (const auto all = ranks(); !all.empty()) return all[0].peak_allocated;
  const DryrunProcess* process = main();
  return process != nullptr && process->torch ? process->torch->peak_allocated : 0;
}

Bytes Dryrun::loaded_code() const {
  Bytes sum = 0;
  for (const DryrunProcess& process : processes) sum += process.launches > 0 ? kLoadedCode : 0;
  return sum;
}

namespace {

const GpuFigures* GpuOf(const DryrunProcess& process, int number) {
  for (const GpuFigures& gpu : process.gpus)
    if (gpu.number == number) return &gpu;
  return nullptr;
}

}  // namespace

Bytes Dryrun::TotalOf(int run, int number) const {
  Bytes most = 0, code = 0;
  for (const DryrunProcess& process : processes) {
    const GpuFigures* gpu = process.run == run ? GpuOf(process, number) : nullptr;
    if (gpu == nullptr) continue;
    most = std::max(most, gpu->device_peak);
    code += process.launches > 0 ? kLoadedCode : 0;
  }
  return std::min(most + code, std::max(capacity, most));
}

std::vector<DryrunRank> Dryrun::ranks() const {
  std::vector<DryrunRank> all;
  for (const DryrunProcess& process : processes) {
    if (!process.torch || (gpus == 1 && !world_size)) continue;
    const TorchFigures& torch = *process.torch;
    // A rank is where it holds most; what it took of other GPUs counts in their totals.
    const auto most = std::max_element(torch.devices.begin(), torch.devices.end(),
                                       [](const auto& a, const auto& b) { return a.peak_reserved < b.peak_reserved; });
    for (auto device = torch.devices.begin(); device != torch.devices.end(); ++device) {
      if (torch.rank && device != most) continue;
      const auto gpu = std::find_if(process.gpus.begin(), process.gpus.end(),
                                    [&](const GpuFigures& g) { return g.index == device->index; });
      if (gpu == process.gpus.end()) continue;
      all.push_back({.rank = torch.rank.value_or(gpu->number),
                     .gpu = gpu->number,
                     .process = &process,
                     .peak_reserved = device->peak_reserved,
                     .peak_allocated = device->peak_allocated,
                     .total = TotalOf(process.run, gpu->number),
                     .nccl = gpu->nccl});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const DryrunRank& a, const DryrunRank& b) {
    return std::tuple(-a.total, -a.peak_reserved, a.rank) < std::tuple(-b.total, -b.peak_reserved, b.rank);
  });
  return all;
}

Bytes Dryrun::total() const {
  Bytes most = 0;
  if (const auto all = ranks(); !all.empty()) return all[0].total;
  for (const DryrunProcess& process : processes) most = std::max(most, process.device_peak);
  return std::min(most + loaded_code(), std::max(capacity, most));
}

bool Dryrun::oom() const {
  return std::any_of(processes.begin(), processes.end(), [](const DryrunProcess& process) {
    return process.torch ? process.torch->ooms > 0 : process.driver_ooms > 0;
  });
}

std::vector<DryrunProcess> ReadProcesses(const std::string& folder, int run) {
  std::vector<DryrunProcess> processes;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != name.find(".json") || !name.ends_with(".json")) continue;
    const auto object = ReadObject(entry.path().string());
    if (!object || Text(*object, "format") != "ebbtide.phantom") continue;
    DryrunProcess process = ReadProcess(*object);
    if (process.peak == 0 && process.not_modelled.empty()) continue;  // asked about the device, and left it alone
    process.run = run;
    processes.push_back(std::move(process));
    const std::string stem = folder + "/" + name.substr(0, name.find('.'));
    if (const auto torch = ReadObject(stem + ".torch.json")) {
      processes.back().torch = ReadTorch(*torch, processes.back().pid);
    }
    if (Result<MemoryTimeline> timeline = ReadTimeline(stem + ".timeline.json")) {
      processes.back().timeline = *std::move(timeline);
    }
  }
  std::sort(processes.begin(), processes.end(),
            [](const DryrunProcess& a, const DryrunProcess& b) { return a.pid < b.pid; });
  return processes;
}

std::vector<int> LostProcesses(const std::string& folder) {
  constexpr std::string_view kSuffix = ".begun";
  std::vector<int> lost;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with(kSuffix)) continue;
    name.resize(name.size() - kSuffix.size());
    std::error_code missing;
    if (!fs::exists(folder + "/" + name + ".json", missing)) lost.push_back(std::atoi(name.c_str()));
  }
  std::sort(lost.begin(), lost.end());
  return lost;
}

std::string OwnLine(const std::vector<std::string>& stack) {
  const auto own =
      std::find_if(stack.rbegin(), stack.rend(), [](const std::string& frame) { return !frame.starts_with("torch/"); });
  return own != stack.rend() ? *own : stack.empty() ? "" : stack.back();
}

std::string PlaceOf(std::optional<std::int64_t> step, const std::string& line) {
  if (!step) return line;
  return fmt::format("step {}{}{}", *step, line.empty() ? "" : ", ", line);
}

namespace {

About AboutOf(const Dryrun& run) {
  const TorchFigures* const torch = run.main()->torch ? &*run.main()->torch : nullptr;
  About about;
  std::string program;
  for (const std::string& word : run.command) program += (program.empty() ? "" : " ") + word;
  about.Add("program", program);
  if (torch != nullptr) about.Add("steps", fmt::format("{}{}", torch->steps, torch->stopped ? ", then stopped" : ""));
  about.Add("GPU", fmt::format("phantom {}, {}", run.gpu, FormatBytes(run.capacity)));
  if (torch != nullptr) about.Add("torch", torch->version);
  about.Add("CUDA", fmt::format("{}", run.cuda));
  if (torch != nullptr && torch->step_time)
    about.Add("GPU time of a step", FormatTime(*torch->step_time) + ", predicted");
  about.verdict = run.oom() || run.exit_code != 0 ? Verdict::kBad : Verdict::kGood;
  about.says = run.oom()            ? "Out of memory"
               : run.exit_code != 0 ? fmt::format("The program ended with code {}", run.exit_code)
                                    : fmt::format("Ran within the memory: {} free at the peak",
                                                  FormatBytes(std::max<Bytes>(0, run.capacity - run.total())));
  return about;
}

}  // namespace

MemoryTimeline DryrunTimeline(const Dryrun& run) {
  return RankTimeline(run, {.process = run.main(),
                            .peak_reserved = run.peak_reserved(),
                            .peak_allocated = run.peak_allocated(),
                            .total = run.total()});
}

MemoryTimeline RankTimeline(const Dryrun& run, const DryrunRank& rank) {
  const DryrunProcess& main = *rank.process;
  MemoryTimeline timeline = *main.timeline;
  for (const std::string& word : run.command) timeline.title += (timeline.title.empty() ? "" : " ") + word;
  timeline.subtitle = fmt::format("on the phantom {}", run.product);
  timeline.about = AboutOf(run);
  timeline.capacity = run.capacity;
  timeline.context = main.context;
  timeline.peak_reserved = rank.peak_reserved;
  timeline.peak_allocated = rank.peak_allocated;
  timeline.total = rank.total;
  if (!main.torch) return timeline;
  timeline.subtitle += ", torch " + main.torch->version;
  timeline.reserved_place = PlaceOf(main.torch->peak_step, main.torch->peak_line);
  timeline.allocated_place = PlaceOf(main.torch->allocated_step, main.torch->allocated_line);
  for (const DryrunOom& oom : main.torch->oom_list) {
    const std::string line = OwnLine(oom.stack);
    timeline.failures.push_back(fmt::format("{} asked for, {} of {} free{}{}", FormatBytes(oom.requested),
                                            FormatBytes(oom.free), FormatBytes(oom.capacity),
                                            line.empty() ? "" : ", at ", line));
  }
  timeline.notes.insert(timeline.notes.end(), main.torch->notes.begin(), main.torch->notes.end());
  return timeline;
}

Json DryrunJson(const Dryrun& run) {
  Json out = NewResult("dryrun");
  const DryrunProcess* main = run.main();
  const TorchFigures* torch = main != nullptr && main->torch ? &*main->torch : nullptr;
  out["program"] = run.command;
  out["exit_code"] = run.exit_code;
  out["oom"] = run.oom();
  const bool observed = run.observed();
  const auto figure = [&](std::int64_t value) { return observed ? Json(value) : Json(nullptr); };
  out["observed"] = observed;
  out["lost_processes"] = run.lost;
  out["steps"] = figure(torch != nullptr ? torch->steps : 0);
  out["peak_reserved_bytes"] = figure(run.peak_reserved());
  out["peak_allocated_bytes"] = figure(run.peak_allocated());
  out["total_bytes"] = figure(run.total());
  out["step_time_ns"] = observed && torch != nullptr && torch->step_time ? Json(*torch->step_time) : Json(nullptr);
  out["guessed_launches"] = figure(torch != nullptr ? torch->guessed_launches : 0);
  out["context_bytes"] = figure(main != nullptr ? main->context : 0);
  out["loaded_code_bytes"] = figure(run.loaded_code());
  out["gpu"] = run.gpu;
  out["gpus"] = run.gpus;
  const std::vector<DryrunRank> ranks = run.ranks();
  if (run.gpus > 1 || run.world_size) {
    out["world_size"] = run.world_size               ? Json(*run.world_size)
                        : torch && torch->world_size ? Json(*torch->world_size)
                                                     : Json(nullptr);
    out["ranks"] = Json::array();
    for (const DryrunRank& rank : ranks) {
      if (observed) out["ranks"].push_back(RankJson(rank));
    }
  }
  out["capacity_bytes"] = run.capacity;
  out["cuda"] = run.cuda;
  out["torch"] = torch != nullptr ? Json(torch->version) : Json(nullptr);
  out["stopped_after_steps"] = torch != nullptr && torch->stopped;
  const auto step = [&](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  const auto line = [&](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  const TorchFigures none, &figures = torch != nullptr ? *torch : none;
  out["peak_step"] = step(figures.peak_step);
  out["peak_line"] = line(figures.peak_line);
  out["peak_allocated_step"] = step(figures.allocated_step);
  out["peak_allocated_line"] = line(figures.allocated_line);
  if (observed && main != nullptr && main->timeline) {
    const auto peak = SampleTimeline(*main->timeline, 1);
    Json breakdown = Json::object();
    for (std::size_t i = 0; i < kMemoryCategories && !peak.empty(); ++i) {
      breakdown[Name(static_cast<MemoryCategory>(i))] = peak[0].by_category[i];
    }
    if (!ranks.empty()) breakdown["NCCL"] = ranks[0].nccl;
    out["breakdown"] = breakdown;
  }
  out["ooms"] = Json::array();
  out["assumptions"] = Json::array();
  std::int64_t host_reads = 0, empty_reads = 0, launches = 0, undeclared = 0, faults = 0;
  std::optional<std::int64_t> races;
  std::map<std::string, std::int64_t> not_modelled;
  Json race_list = Json::array();
  for (const DryrunProcess& process : run.processes) {
    host_reads += process.host_reads;
    empty_reads += process.empty_host_reads;
    launches += process.launches;
    undeclared += process.undeclared_launches;
    faults += process.faults_injected;
    if (process.race_count) races = races.value_or(0) + *process.race_count;
    for (const Json& race : process.races) race_list.push_back(race);
    for (const auto& [name, count] : process.not_modelled) not_modelled[name] += count;
    if (!process.torch) continue;
    for (const DryrunOom& oom : process.torch->oom_list) out["ooms"].push_back(OomJson(oom));
    for (const DryrunAssumption& one : process.torch->assumptions) out["assumptions"].push_back(AssumptionJson(one));
  }
  out["host_reads"] = host_reads;
  out["empty_host_reads"] = empty_reads;
  out["launches"] = launches;
  out["undeclared_launches"] = undeclared;
  out["faults_injected"] = faults;
  out["race_count"] = races ? Json(*races) : Json(nullptr);
  if (races) out["races"] = race_list;
  out["not_modelled"] = Json(not_modelled);
  out["processes"] = Json::array();
  for (const DryrunProcess& process : run.processes) out["processes"].push_back(ProcessJson(process));
  out["notes"] = torch != nullptr ? Json(torch->notes) : Json::array();
  return out;
}

}  // namespace ebbtide::report
