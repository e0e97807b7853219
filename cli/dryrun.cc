// ebbtide dryrun -- PROGRAM ARGUMENTS...: runs a PyTorch program as if a GPU were there, and tells what it took of it.
#include "report/dryrun.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/file.h"
#include "cli/dryrun_assume.h"
#include "cli/output.h"
#include "cli/phantom.h"
#include "cli/process.h"
#include "cli/temporary_folder.h"
#include "cli/verb.h"
#include "device/profile.h"
#include "phantom/core/faults.h"
#include "report/page/choice_page.h"
#include "report/text/text.h"

namespace ebbtide::cli {
namespace {

namespace fs = std::filesystem;

// How long processes that the program left behind have for writing their records.
constexpr std::chrono::milliseconds kPatience{3000};

struct DryrunFlags {
  OutputFlags output;
  std::string gpu = "a100-40gb";
  std::vector<std::string> files;
  std::int64_t stop_after_steps = 0;  // 0: run to the end
  std::string check, fail, log;
  std::vector<std::string> assume;  // NAME=VALUE
  double jitter_us = 0;
  int cuda = 0;        // generation; 0: that of the program's torch
  int gpus = 0;        // of the machine; 0: 1, or as many as ranks fit a machine
  int world_size = 0;  // 0: the program starts its own ranks
  std::string ranks;   // of them, those that are run
};

constexpr int kMostGpus = 64, kMostRanks = 1 << 20;
constexpr int kGpusOfMachine = 8;  // where nobody says how many

bool Wants(const DryrunFlags& flags, const char* suffix) {
  return std::any_of(flags.files.begin(), flags.files.end(), [&](const std::string& f) { return f.ends_with(suffix); });
}

std::string Absolute(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  return error ? path : absolute.string();
}

int GpusOf(const DryrunFlags& flags) {
  if (flags.gpus > 0) return flags.gpus;
  return flags.world_size > 0 ? std::min(flags.world_size, kGpusOfMachine) : 1;
}

// "0,7,511" and "0-3".
Result<std::vector<int>> ParseRanks(const DryrunFlags& flags) {
  std::vector<int> ranks;
  const auto wrong = [&] {
    return Fail("--ranks {}: expected numbers of 0 to {} with commas between, as 0,7 or 0-3", flags.ranks,
                flags.world_size - 1);
  };
  std::string_view rest = flags.ranks.empty() ? std::string_view("0") : std::string_view(flags.ranks);
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    int first = 0;
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), first);
    if (error != std::errc()) return wrong();
    int last = first;
    if (end != word.data() + word.size()) {
      if (*end != '-') return wrong();
      const auto [stop, bad] = std::from_chars(end + 1, word.data() + word.size(), last);
      if (bad != std::errc() || stop != word.data() + word.size()) return wrong();
    }
    if (first < 0 || last < first || last >= flags.world_size) return wrong();
    for (int rank = first; rank <= last; ++rank)
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  }
  return ranks;
}

// All that can be wrong with the command line, before anything is started.
Status CheckFlags(const DryrunFlags& flags, const std::vector<std::string>& command) {
  if (command.empty()) return Fail("expected -- and the program to run, as in: ebbtide dryrun -- python train.py");
  for (const std::string& file : flags.files) {
    const auto ends = [&](const char* suffix) { return file.ends_with(suffix); };
    if (!ends(".json") && !ends(".txt") && !ends(".html") && !ends(".pickle")) {
      return Fail("-o {}: expected a name that ends in .html, .pickle, .json or .txt", file);
    }
    std::error_code error;
    if (const fs::path folder = fs::path(Absolute(file)).parent_path(); !fs::is_directory(folder, error)) {
      return Fail("-o {}: {}: no such folder", file, folder.string());
    }
  }
  if (!flags.check.empty() && flags.check != "race") return Fail("--check: expected race, found {}", flags.check);
  if (flags.cuda != 0 && flags.cuda != 12 && flags.cuda != 13) {
    return Fail("--cuda: expected 12 or 13, found {}", flags.cuda);
  }
  if (!(flags.jitter_us >= 0 && flags.jitter_us <= 1e7)) {
    return Fail("--jitter-us: expected a number of 0 to 10000000, found {}", flags.jitter_us);
  }
  if (flags.gpus < 0 || flags.gpus > kMostGpus) {
    return Fail("--gpus: expected a number of 1 to {}, found {}", kMostGpus, flags.gpus);
  }
  if (flags.world_size < 0 || flags.world_size > kMostRanks) {
    return Fail("--world-size: expected a number of 1 to {}, found {}", kMostRanks, flags.world_size);
  }
  if (!flags.ranks.empty() && flags.world_size == 0) return Fail("--ranks: expected --world-size beside it");
  if (flags.world_size > 0) {
    if (const auto ranks = ParseRanks(flags); !ranks) return tl::unexpected<Error>(ranks.error());
    if (const std::string name = fs::path(command[0]).filename(); name == "torchrun" || name == "accelerate") {
      return Fail(
          "--world-size: {} starts ranks by itself: expected the program that it starts, as in: "
          "ebbtide dryrun --world-size 64 --ranks 0 -- python train.py",
          name);
    }
  }
  if (!flags.log.empty()) {
    std::FILE* file = std::fopen(flags.log.c_str(), "a");
    if (file == nullptr) return Fail("--log {}: {}", flags.log, std::strerror(errno));
    std::fclose(file);
  }
  if (const auto assumed = ParseAssume(flags.assume); !assumed) return tl::unexpected<Error>(assumed.error());
  if (const auto rules = phantom::ParseFaults(flags.fail); !rules) return Within("--fail", rules.error());
  return {};
}

void SetUp(const DryrunFlags& flags, const Phantom& phantom, int generation, const std::string& folder,
           const std::string& shared, Environment& environment) {
  environment.Prepend("LD_PRELOAD", phantom.preloads.at(generation));
  environment.Prepend("PYTHONPATH", phantom.site);
  const bool is_file = flags.gpu.find('/') != std::string::npos || flags.gpu.ends_with(".json");
  environment.Set("EBBTIDE_PHANTOM_PROFILE", is_file ? Absolute(flags.gpu) : flags.gpu);
  environment.Set("EBBTIDE_PHANTOM_OUTPUT", folder);
  environment.Set("EBBTIDE_PHANTOM_SHARED", shared);
  environment.Set("EBBTIDE_PHANTOM_SEED", fmt::format("{}", flags.output.seed));
  environment.Set("EBBTIDE_PHANTOM_TIMES", "model");
  environment.Set("EBBTIDE_PHANTOM_GPUS", fmt::format("{}", GpusOf(flags)));
  if (!flags.check.empty()) environment.Set("EBBTIDE_PHANTOM_CHECK", flags.check);
  if (!flags.fail.empty()) environment.Set("EBBTIDE_PHANTOM_FAIL", flags.fail);
  if (!flags.log.empty()) environment.Set("EBBTIDE_PHANTOM_LOG", Absolute(flags.log));
  if (flags.jitter_us > 0) environment.Set("EBBTIDE_PHANTOM_JITTER_US", fmt::format("{}", flags.jitter_us));
  if (flags.output.threads > 0) environment.Set("OMP_NUM_THREADS", fmt::format("{}", flags.output.threads));

  // torch.compile looks for libcuda by itself, and what it tunes here must not be found by runs on a real device.
  for (const auto& [name, value] : {std::pair("TRITON_LIBCUDA_PATH", phantom.libraries + "/common"),
                                    std::pair("TRITON_CACHE_DIR", folder + "/triton"),
                                    std::pair("TORCHINDUCTOR_CACHE_DIR", folder + "/inductor")}) {
    if (environment.Get(name).empty()) environment.Set(name, value);
  }

  environment.Set("EBBTIDE_DRYRUN", folder);
  environment.Set("EBBTIDE_DRYRUN_ASSUME", ParseAssume(flags.assume).value_or(""));
  environment.Set("EBBTIDE_DRYRUN_SITE", phantom.site);
  if (flags.stop_after_steps > 0) {
    environment.Set("EBBTIDE_DRYRUN_STOP", fmt::format("{}", flags.stop_after_steps));
  }
  if (Wants(flags, ".pickle")) environment.Set("EBBTIDE_DRYRUN_SNAPSHOT", "1");
  // A Python whose torch is of the other generation starts itself anew with the libraries of that.
  environment.Set("EBBTIDE_DRYRUN_CUDA", fmt::format("{}", generation));
  for (const auto& [number, list] : phantom.preloads) {
    if (flags.cuda == 0) environment.Set(fmt::format("EBBTIDE_DRYRUN_PRELOAD{}", number), list);
  }
}

Status WriteFiles(const DryrunFlags& flags, const report::Dryrun& run, const TemporaryFolder& folder) {
  const report::DryrunProcess* main = run.main();
  for (const std::string& file : flags.files) {
    if (file.ends_with(".json")) {
      EBB_RETURN_IF_ERROR(WriteFile(file, report::Print(report::DryrunJson(run))));
    } else if (file.ends_with(".txt")) {
      EBB_RETURN_IF_ERROR(WriteFile(file, report::DryrunText(run, kTextFile)));
    } else if (!run.observed() || main == nullptr || !main->timeline) {
      Note(flags.output, fmt::format("-o {}: not written: no process recorded its memory", file));
      continue;
    } else if (file.ends_with(".html")) {
      EBB_RETURN_IF_ERROR(WriteFile(file, Stamped(report::DryrunPage(run))));
    } else {
      constexpr Bytes kLargestSnapshot = 4 * kGiB;
      EBB_ASSIGN_OR_RETURN(
          const std::string snapshot,
          ReadFile(folder.File(
                       fmt::format("{}{}.pickle", main->run > 0 ? fmt::format("run-{}/", main->run) : "", main->pid)),
                   kLargestSnapshot));
      EBB_RETURN_IF_ERROR(WriteFile(file, snapshot));
    }
    Remark(flags.output, fmt::format("wrote {}", file));
  }
  return {};
}

// Files in shared memory that processes of the run left behind: those that were killed, and those of NCCL.
void RemoveShared(const std::string& shared) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev/shm", error)) {
    const std::string name = entry.path().filename().string();
    const std::string ours = "ebbtide-phantom-" + shared;
    if (name == ours || name.starts_with(ours + ".") || name.starts_with(ours + "-")) shm_unlink(("/" + name).c_str());
  }
}

// One run of the program; `pose`, if not null, is the environment of the rank that it is.
Result<int> RunOnce(const DryrunFlags& flags, const Phantom& phantom, int generation,
                    const std::vector<std::string>& words, const std::string& folder, const std::string& suffix,
                    const std::map<std::string, std::string>* pose) {
  const std::string shared = fmt::format("dryrun-{}{}", getpid(), suffix);
  Environment environment;
  SetUp(flags, phantom, generation, folder, shared, environment);
  if (pose != nullptr) {
    for (const auto& [name, value] : *pose) environment.Set(name, value);
  }
  const Result<int> code = RunProcess(
      words, environment, flags.output.json ? ChildOutput::kToErrors : ChildOutput::kKeep, ChildInterrupts::kPrograms);
  WaitForOrphans(kPatience);
  RemoveShared(shared);
  return code;
}

struct Ran {
  int code = 0;  // of the first that failed
  std::vector<report::DryrunProcess> processes;
  std::vector<int> lost;
};

// Each rank alone, one after the other, as torchrun would start it; the others are taken to do as it does.
Result<Ran> RunRanks(const DryrunFlags& flags, const Phantom& phantom, int generation,
                     const std::vector<std::string>& words, const TemporaryFolder& folder) {
  EBB_ASSIGN_OR_RETURN(const std::vector<int> ranks, ParseRanks(flags));
  const int local_size = std::min(GpusOf(flags), flags.world_size);
  Ran ran;
  int number = 0;
  for (const int rank : ranks) {
    const auto text = [](int value) { return fmt::format("{}", value); };
    const std::map<std::string, std::string> pose = {
        {"RANK", text(rank)},
        {"LOCAL_RANK", text(rank % local_size)},
        {"WORLD_SIZE", text(flags.world_size)},
        {"LOCAL_WORLD_SIZE", text(local_size)},
        {"GROUP_RANK", text(rank / local_size)},
        {"GROUP_WORLD_SIZE", text((flags.world_size + local_size - 1) / local_size)},
        {"ROLE_RANK", text(rank)},
        {"ROLE_WORLD_SIZE", text(flags.world_size)},
        {"ROLE_NAME", "default"},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", "29500"},  // nobody is asked there: the watcher stands in for the store
        {"TORCHELASTIC_RESTART_COUNT", "0"},
        {"TORCHELASTIC_MAX_RESTARTS", "0"},
        {"TORCHELASTIC_RUN_ID", "none"},
        {"EBBTIDE_PHANTOM_ALONE", "1"},
    };
    ++number;
    const std::string records = folder.File(fmt::format("run-{}", number));
    std::error_code error;
    if (!fs::create_directory(records, error)) return Fail("{}: {}", records, error.message());
    Remark(flags.output, fmt::format("rank {} of {}", rank, flags.world_size));
    EBB_ASSIGN_OR_RETURN(const int code,
                         RunOnce(flags, phantom, generation, words, records, fmt::format("-{}", rank), &pose));
    if (ran.code == 0) ran.code = code;
    for (auto& process : report::ReadProcesses(records, number)) ran.processes.push_back(std::move(process));
    for (const int pid : report::LostProcesses(records)) ran.lost.push_back(pid);
    if (code >= 128) break;  // a signal: an interrupt ends all of it
  }
  return ran;
}

Result<int> RunDryrun(const DryrunFlags& flags, const std::vector<std::string>& command) {
  EBB_RETURN_IF_ERROR(CheckFlags(flags, command));
  EBB_ASSIGN_OR_RETURN(const DeviceProfile profile, FindProfile(flags.gpu));
  const auto program = FindProgram(command[0]);
  if (!program) return Fail("{}: no such program", command[0]);
  const int generation = flags.cuda != 0 ? flags.cuda : GenerationOf(*program);  // an interrupt here leaves no folder
  EBB_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  EBB_ASSIGN_OR_RETURN(const Phantom phantom, FindPhantom(folder.path()));

  if (!phantom.preloads.contains(generation)) return Fail("this build has no phantom GPU for CUDA {}", generation);
  Remark(flags.output, fmt::format("{} on {}, CUDA {}", *program, profile.name, generation));
  std::vector<std::string> words = command;
  words[0] = *program;
  AdoptOrphans();
  Ran ran;
  if (flags.world_size == 0) {
    EBB_ASSIGN_OR_RETURN(ran.code, RunOnce(flags, phantom, generation, words, folder.path(), "", nullptr));
    ran.processes = report::ReadProcesses(folder.path());
    ran.lost = report::LostProcesses(folder.path());
  } else {
    EBB_ASSIGN_OR_RETURN(ran, RunRanks(flags, phantom, generation, words, folder));
  }

  report::Dryrun run{.command = command,
                     .exit_code = ran.code,
                     .gpu = profile.name,
                     .product = profile.product,
                     .capacity = profile.memory,
                     .cuda = generation,
                     .processes = std::move(ran.processes),
                     .gpus = GpusOf(flags),
                     .world_size = flags.world_size > 0 ? std::optional(flags.world_size) : std::nullopt,
                     .lost = std::move(ran.lost)};
  EBB_RETURN_IF_ERROR(WriteFiles(flags, run, folder));
  if (flags.output.json) {
    const std::string text = report::Print(report::DryrunJson(run));
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
      return Fail("standard output: {}", std::strerror(errno));
    }
  } else if (!flags.output.quiet) {
    const report::Terminal terminal = report::DescribeTerminal(STDERR_FILENO);
    const std::string text = report::FitLines(report::DryrunText(run, terminal), terminal.width);
    std::fwrite(text.data(), 1, text.size(), stderr);
  }
  return ran.code;
}

}  // namespace

Verb AddDryrun(CLI::App& program, const std::vector<std::string>& command) {
  CLI::App* app = program.add_subcommand("dryrun", "Run the PyTorch program behind -- as if a GPU were there");
  const auto flags = std::make_shared<DryrunFlags>();
  app->option_defaults()->group("GPU");
  app->add_option("--gpu", flags->gpu, "A name that `ebbtide gpus` lists, or a profile of your own (default a100-40gb)")
      ->type_name("NAME|FILE");
  app->add_option("--gpus", flags->gpus, "GPUs of the machine, all alike (default 1; with --world-size 8)")
      ->type_name("N")
      ->check(Check(CheckPositive));
  app->add_option("--world-size", flags->world_size,
                  "Run single ranks of N, as torchrun would start them; the others are taken to do the same")
      ->type_name("N")
      ->check(Check(CheckPositive));
  app->add_option("--ranks", flags->ranks, "With --world-size: those that are run, one by one (default 0)")
      ->type_name("LIST");
  app->add_option("--cuda", flags->cuda, "CUDA generation of the program, 12 or 13 (default: its torch's)")
      ->type_name("N")
      ->check(Check(CheckPositive));
  app->option_defaults()->group("Run");
  app->add_option("--stop-after-steps", flags->stop_after_steps, "End the program after N updates, with exit code 0")
      ->type_name("N")
      ->check(Check(CheckPositive));
  app->add_option("--assume", flags->assume, "What stands in for values of skipped kernels, as masks=0.5,experts=first")
      ->type_name("NAME=VALUE");
  app->add_option("--check", flags->check, "race: look for accesses that no stream order, event or wait keeps apart")
      ->type_name("race");
  app->add_option("--fail", flags->fail, "Faults, as cudaMalloc@3,cuMemMap%0.01=out_of_memory (see docs/phantom.md)")
      ->type_name("RULES");
  app->add_option("--jitter-us", flags->jitter_us, "Operations start late by a random time up to this")->type_name("N");
  app->add_option("--log", flags->log, "Append every CUDA call to FILE, with its arguments")->type_name("FILE");
  AddOutputFlags(*app, flags->output, nullptr);
  AddFilesFlag(*app, flags->files, ".html the page, .pickle torch's snapshot, .json, .txt");
  return {app, [flags, command] { return RunDryrun(*flags, command); }};
}

}  // namespace ebbtide::cli
