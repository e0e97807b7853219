// ebbtide run --gpu-share -- PROGRAM ARGUMENTS...: runs a program beside others on one GPU, when there is room for it.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/memory_size.h"
#include "broker/broker.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/process.h"
#include "cli/temporary_folder.h"
#include "cli/verb.h"
#include "device/profile.h"

namespace ebbtide::cli {
namespace {

namespace fs = std::filesystem;

// Of a process, where no profile says what its context takes.
constexpr Bytes kUsualContext = 600 * kMiB;
constexpr double kMarginOfDryRun = 0.05;
constexpr int kStepsOfDryRun = 3;

struct RunFlags {
  OutputFlags output;
  bool gpu_share = false;
  std::string memory;  // empty: as a dry run takes
  std::string gpu;     // a profile; empty: the GPU of this machine
  int gpu_index = -1;  // below 0: the first that the program sees
};

struct Card {
  std::string name;  // tells it from other GPUs of the machine
  Bytes memory = 0;
  Bytes context = kUsualContext;
  std::string profile;  // empty: none fits
};

// The GPU of this machine, by NVIDIA's management library, which needs no context.
Result<Card> RealCard(int index) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Fail("no NVIDIA driver is here: expected --gpu NAME, whose memory is shared then");
  struct Memory {
    unsigned long long total, free, used;
  };
  const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto handle = reinterpret_cast<int (*)(unsigned, void**)>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
  const auto memory = reinterpret_cast<int (*)(void*, Memory*)>(dlsym(library, "nvmlDeviceGetMemoryInfo"));
  const auto uuid = reinterpret_cast<int (*)(void*, char*, unsigned)>(dlsym(library, "nvmlDeviceGetUUID"));
  const auto name = reinterpret_cast<int (*)(void*, char*, unsigned)>(dlsym(library, "nvmlDeviceGetName"));
  void* device = nullptr;
  Memory about = {};
  char id[96] = {}, product[96] = {};
  if (init == nullptr || handle == nullptr || memory == nullptr || uuid == nullptr || name == nullptr || init() != 0 ||
      handle(static_cast<unsigned>(index), &device) != 0 || memory(device, &about) != 0 ||
      uuid(device, id, sizeof id) != 0 || name(device, product, sizeof product) != 0) {
    return Fail("--gpu-index {}: no such GPU here", index);
  }
  Card card{.name = id, .memory = static_cast<Bytes>(about.total), .profile = {}};
  for (const DeviceProfile& profile : BuiltInProfiles()) {
    if (profile.product == product) card.context = profile.context, card.profile = profile.name;
  }
  return card;
}

// Of the GPUs that the program sees, the first, where they are told by numbers.
int FirstVisible() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? 0 : std::max(0, std::atoi(visible));
}

Result<Card> CardOf(const RunFlags& flags, int index) {
  if (flags.gpu.empty()) return RealCard(index);
  EBB_ASSIGN_OR_RETURN(const DeviceProfile profile, FindProfile(flags.gpu));
  return Card{fmt::format("{}-{}", profile.name, index), profile.memory, profile.context, profile.name};
}

// Where the tickets of the GPU lie: in memory, as shares do not outlive the machine.
std::string FolderOf(const Card& card) {
  const char* chosen = std::getenv("EBBTIDE_SHARE_FOLDER");
  const std::string root = chosen != nullptr ? chosen : fmt::format("/dev/shm/ebbtide-share-{}", geteuid());
  std::string name = card.name;
  std::ranges::replace(name, '/', '_');
  return root + "/" + name;
}

// What the program takes on the phantom GPU, with a margin: its own allocator tells.
Result<Bytes> DryRun(const RunFlags& flags, const Card& card, const std::vector<std::string>& command) {
  if (card.profile.empty()) return Fail("expected --memory: no profile of this GPU to predict with");
  Note(flags.output, fmt::format("no --memory: a dry run on {} tells what the program takes", card.profile));
  EBB_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  const std::string file = folder.File("dryrun.json");
  std::vector<std::string> words = {
      FolderOfProgram() + "/ebbtide",    "dryrun", "-q", "--gpu", card.profile, "--stop-after-steps",
      fmt::format("{}", kStepsOfDryRun), "-o",     file, "--"};
  words.insert(words.end(), command.begin(), command.end());
  EBB_ASSIGN_OR_RETURN(const int code,
                       RunProcess(words, Environment(), ChildOutput::kToErrors, ChildInterrupts::kPrograms));
  const auto text = ReadFile(file, kGiB);
  const auto result = text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  if (code != 0 || !result.is_object() || !result.value("observed", false) || !result["total_bytes"].is_number()) {
    return Fail("the dry run tells nothing (exit code {}): expected --memory", code);
  }
  return static_cast<Bytes>(result["total_bytes"].get<double>() * (1 + kMarginOfDryRun));
}

std::string Waiting(const broker::Moment& moment, Bytes bytes) {
  std::string out = fmt::format("waits for {}: ", FormatBytes(bytes));
  std::int64_t queue = 0;
  std::vector<std::string> holders;
  for (const broker::Holder& holder : moment.before) {
    if (!holder.granted) {
      ++queue;
    } else if (holders.size() < 3) {
      holders.push_back(fmt::format("{} by {} ({})", FormatBytes(holder.bytes), holder.pid, holder.command));
    }
  }
  out += fmt::format("{} of {} are taken", FormatBytes(moment.granted()), FormatBytes(moment.capacity));
  if (!holders.empty()) out += fmt::format(", {}", fmt::join(holders, ", "));
  if (queue > 0) out += fmt::format("; {} wait before it", queue);
  return out;
}

Result<int> RunShared(const RunFlags& flags, const std::vector<std::string>& command) {
  if (!flags.gpu_share)
    return Fail("expected --gpu-share, as in: ebbtide run --gpu-share --memory 8GiB -- python train.py");
  if (command.empty())
    return Fail("expected -- and the program to run, as in: ebbtide run --gpu-share -- python train.py");
  const auto program = FindProgram(command[0]);
  if (!program) return Fail("{}: no such program", command[0]);
  const int index = flags.gpu_index >= 0 ? flags.gpu_index : FirstVisible();
  EBB_ASSIGN_OR_RETURN(const Card card, CardOf(flags, index));
  Bytes bytes = 0;
  if (flags.memory.empty()) {
    EBB_ASSIGN_OR_RETURN(bytes, DryRun(flags, card, command));
  } else {
    const Result<Bytes> memory = ParseMemory(flags.memory);
    if (!memory) return Within("--memory", memory.error());
    bytes = *memory;
  }
  if (bytes <= card.context || bytes > card.memory) {
    return Fail("{}: expected more than a context, {}, and at most what the GPU has, {}", FormatBytes(bytes),
                FormatBytes(card.context), FormatBytes(card.memory));
  }
  EBB_ASSIGN_OR_RETURN(broker::Ticket ticket,
                       broker::Ticket::Join(FolderOf(card), bytes, fs::path(command.back()).filename().string()));
  const auto began = std::chrono::steady_clock::now();
  EBB_RETURN_IF_ERROR(ticket.Wait(
      card.memory, [&](const broker::Moment& moment) { Note(flags.output, Waiting(moment, bytes)); }, Interrupted));
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;

  Environment environment;
  if (flags.gpu_index >= 0) environment.Set("CUDA_VISIBLE_DEVICES", fmt::format("{}", index));
  environment.Set("EBBTIDE_SHARE_BYTES", fmt::format("{}", bytes));
  environment.Set("EBBTIDE_SHARE_CONTEXT", fmt::format("{}", card.context));
  std::error_code error;
  for (const fs::path& site : {fs::path(FolderOfProgram()) / "python-path" / "ebbtide" / "share_site",
                               fs::path(FolderOfProgram()) / ".." / "share_site"}) {
    if (!fs::is_directory(site, error)) continue;
    environment.Prepend("PYTHONPATH", site.string());
    break;
  }
  std::vector<std::string> words = command;
  words[0] = *program;
  EBB_ASSIGN_OR_RETURN(const int code,
                       RunProcess(words, environment, flags.output.json ? ChildOutput::kToErrors : ChildOutput::kKeep,
                                  ChildInterrupts::kPrograms));
  if (flags.output.json) {
    report::Json out = report::NewResult("run");
    out["exit_code"] = code;
    out["memory_bytes"] = bytes;
    out["capacity_bytes"] = card.memory;
    out["waited_s"] = waited.count();
    EBB_RETURN_IF_ERROR(Emit(flags.output, out, [](const report::Terminal&) { return std::string(); }));
  }
  return code;
}

}  // namespace

Verb AddRun(CLI::App& program, const std::vector<std::string>& command) {
  CLI::App* app = program.add_subcommand("run", "Run the program behind -- on a shared GPU, when there is room for it");
  const auto flags = std::make_shared<RunFlags>();
  app->add_flag("--gpu-share", flags->gpu_share, "Wait until it fits beside the others that were started like this")
      ->disable_flag_override();
  app->add_option("--memory", flags->memory,
                  "Of the GPU, for the program and its context, as 8GiB (default: what a dry run takes, and 5 %)")
      ->type_name("BYTES");
  app->add_option("--gpu-index", flags->gpu_index,
                  "Of this machine's GPUs, which one (default: the first that is visible)")
      ->type_name("N")
      ->check(Check(CheckNotNegative));
  app->add_option("--gpu", flags->gpu, "A GPU by name in place of this machine's: its memory is shared out, for tests")
      ->type_name("NAME|FILE");
  AddOutputFlags(*app, flags->output);
  return {app, [flags, command] { return RunShared(*flags, command); }};
}

}  // namespace ebbtide::cli
