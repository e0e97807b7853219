// ebbtide dryrun -- PROGRAM ARGUMENTS...: runs a PyTorch program as if a GPU were there, and tells what it took of it.
#include "report/dryrun.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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
#include "report/page/memory_page.h"
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
  int cuda = 0;  // generation; 0: that of the program's torch
};

bool Wants(const DryrunFlags& flags, const char* suffix) {
  return std::any_of(flags.files.begin(), flags.files.end(), [&](const std::string& f) { return f.ends_with(suffix); });
}

std::string Absolute(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  return error ? path : absolute.string();
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
      EBB_RETURN_IF_ERROR(WriteFile(file, Stamped(report::MemoryPage(report::DryrunTimeline(run)))));
    } else {
      constexpr Bytes kLargestSnapshot = 4 * kGiB;
      EBB_ASSIGN_OR_RETURN(const std::string snapshot,
                           ReadFile(folder.File(fmt::format("{}.pickle", main->pid)), kLargestSnapshot));
      EBB_RETURN_IF_ERROR(WriteFile(file, snapshot));
    }
    Remark(flags.output, fmt::format("wrote {}", file));
  }
  return {};
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
  const std::string shared = fmt::format("dryrun-{}", getpid());
  Environment environment;
  SetUp(flags, phantom, generation, folder.path(), shared, environment);

  std::vector<std::string> words = command;
  words[0] = *program;
  AdoptOrphans();
  const Result<int> code = RunProcess(
      words, environment, flags.output.json ? ChildOutput::kToErrors : ChildOutput::kKeep, ChildInterrupts::kPrograms);
  WaitForOrphans(kPatience);
  shm_unlink(("/ebbtide-phantom-" + shared).c_str());  // left behind where a process was killed
  if (!code) return tl::unexpected<Error>(code.error());

  report::Dryrun run{.command = command,
                     .exit_code = *code,
                     .gpu = profile.name,
                     .product = profile.product,
                     .capacity = profile.memory,
                     .cuda = generation,
                     .processes = report::ReadProcesses(folder.path()),
                     .lost = report::LostProcesses(folder.path())};
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
  return *code;
}

}  // namespace

Verb AddDryrun(CLI::App& program, const std::vector<std::string>& command) {
  CLI::App* app = program.add_subcommand("dryrun", "Run the PyTorch program behind -- as if a GPU were there");
  const auto flags = std::make_shared<DryrunFlags>();
  app->option_defaults()->group("GPU");
  app->add_option("--gpu", flags->gpu, "A name that `ebbtide gpus` lists, or a profile of your own (default a100-40gb)")
      ->type_name("NAME|FILE");
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
