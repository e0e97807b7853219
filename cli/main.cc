// The program: finds the verb, parses its flags, runs it, and turns every fault into one line and an exit code.
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/nearest.h"
#include "cli/grammar.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/verb.h"

namespace ebbtide::cli {
namespace {

constexpr const char* kDescription =
    "GPU memory of deep-learning training: what a step needs, op by op, from the model alone.";

constexpr const char* kGeneralGroup = "General";

std::vector<std::string> NamesOf(const std::vector<Verb>& verbs) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs) names.push_back(verb.app->get_name());
  return names;
}

std::vector<std::string> FlagsOf(const CLI::App& verb) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

// What stands on the command line and belongs to nothing.
std::string Unexpected(const std::string& word, const CLI::App& verb) {
  if (!word.starts_with("-") || word == "-") return word + ": one word too many";
  const std::string flag = word.substr(0, word.find('=', 2));
  const std::vector<std::string> flags = FlagsOf(verb);
  if (std::find(flags.begin(), flags.end(), flag) != flags.end()) return flag + ": expected behind the verb";
  return flag + ": not a flag of " + verb.get_name() + DidYouMean(flag, flags);
}

// dryrun or run got a program without "--" before it: the command line as it was meant.
std::string ExpectedBehindDashes(const std::string& word, int argc, char** argv) {
  std::string meant = "ebbtide";
  bool found = false;
  for (int i = 1; i < argc; ++i) {
    if (!found && argv[i] == word) {
      meant += " --";
      found = true;
    }
    meant += std::string(" ") + argv[i];
  }
  return word + ": expected -- before the program, as in: " + meant;
}

// CLI11's own words name types and counts; ours name the flag and what was expected.
std::string MessageOf(const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const std::string text = error.what();
    const std::string name = text.substr(0, text.find_first_of(": "));
    if (text.find("flag override") != std::string::npos) return "--" + name + ": expected no value";  // --json=5
    return name + ": expected a value, found none";
  }
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {  // "Could not convert: --time-limit = x"
    const std::string text = error.what();
    const std::size_t name = text.find("--"), value = text.find(" = ");
    if (name < value && value != std::string::npos) {
      return text.substr(name, value - name) + ": expected a number, found " + text.substr(value + 3);
    }
  }
  return error.what();
}

void SetUp(CLI::App& program) {
  program.set_help_flag("-h,--help", "Print this")->group(kGeneralGroup);
  program.set_version_flag("--version", "ebbtide " EBBTIDE_VERSION, "Print the version")->group(kGeneralGroup);
  program.option_defaults()->group(kGeneralGroup)->take_last();
  program.formatter(std::make_shared<HelpFormatter>());
  program.require_subcommand(0, 1);  // "inspect models": a MODEL of that name, no second verb
  program.allow_extras();
}

// The words behind "--" of a verb that runs a program: they are the program's, whatever they look like. `argc` becomes
// the count of the words before.
std::vector<std::string> CutCommand(int& argc, char** argv) {
  if (argc < 2 || !RunsProgram(argv[1])) return {};
  char** const end = argv + argc;
  char** const at = std::find_if(argv + 2, end, [](const char* word) { return std::string_view(word) == "--"; });
  if (at == end) return {};
  argc = static_cast<int>(at - argv);
  return {at + 1, end};
}

using Adder = Verb (*)(CLI::App& program);
// In the order in which --help lists them. dryrun and run also take the words behind "--".
constexpr std::pair<std::string_view, Adder> kVerbs[] = {{"models", AddModels},
                                                         {"gpus", AddGpus},
                                                         {"cache", AddCache},
                                                         {"inspect", AddInspect},
                                                         {"estimate", AddEstimate},
                                                         {"fit", AddFit},
                                                         {"plan", AddPlan},
                                                         {"simulate", AddSimulate},
                                                         {"share", AddShare},
                                                         {"cluster", AddCluster},
                                                         {"capture", AddCapture},
                                                         {"profile", AddProfile},
                                                         {"train", AddTrain},
                                                         {"verify", AddVerify},
                                                         {"replay", AddReplay},
                                                         {"explain", AddExplain},
                                                         {"advise", AddAdvise},
                                                         {"dryrun", nullptr},
                                                         {"run", nullptr},
                                                         {"pack", AddPack},
                                                         {"report", AddReport},
                                                         {"help", AddHelp},
                                                         {"completion", AddCompletion}};

// Flags of all verbs take as long to set up as a small answer takes to compute: where the first word names a verb, it
// is the only one. `help` and `completion` speak of all of them.
std::vector<Verb> AddVerbs(CLI::App& program, std::string_view word, const std::vector<std::string>& command) {
  const bool is_alone = word != "help" && word != "completion" &&
                        std::ranges::any_of(kVerbs, [&](const auto& verb) { return verb.first == word; });
  std::vector<Verb> verbs;
  for (const auto& [name, add] : kVerbs) {
    if (is_alone && name != word) continue;
    verbs.push_back(name == "dryrun" ? AddDryrun(program, command)
                    : name == "run"  ? AddRun(program, command)
                                     : add(program));
  }
  return verbs;
}

int Main(int argc, char** argv) {
  CLI::App program(kDescription, "ebbtide");
  SetUp(program);
  const std::vector<std::string> command = CutCommand(argc, argv);
  const std::vector<Verb> verbs = AddVerbs(program, argc > 1 ? argv[1] : "", command);
  for (const Verb& verb : verbs) verb.app->allow_extras();

  const auto chosen = [&]() -> const Verb* {
    const auto found = std::find_if(verbs.begin(), verbs.end(), [](const Verb& verb) { return verb.app->parsed(); });
    return found == verbs.end() ? nullptr : &*found;
  };
  const auto refuse_as = [&](const Error& error) {
    WriteErrorFile(error);
    PrintError(chosen() == nullptr ? "" : chosen()->app->get_name(), error.message);
    return kBadInput;
  };
  const auto refuse = [&](const std::string& message) { return refuse_as({message}); };

  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return program.exit(asked);
  } catch (const CLI::ParseError& error) {
    return refuse(MessageOf(error));
  }

  const Verb* verb = chosen();
  if (verb == nullptr) {
    const std::vector<std::string> rest = program.remaining();
    const std::string expected = "expected a verb, " + JoinWithOr(NamesOf(verbs));
    if (rest.empty()) return refuse(expected + " (see ebbtide --help)");
    const std::string near = DidYouMean(rest.front(), NamesOf(verbs));
    if (!near.empty()) return refuse(rest.front() + ": not a verb" + near + " (see ebbtide --help)");
    return refuse(expected + "; found " + rest.front());
  }
  for (const std::string& word : program.remaining(true)) {
    if (word == "--") continue;
    if (RunsProgram(verb->app->get_name()) && !word.starts_with('-'))
      return refuse(ExpectedBehindDashes(word, argc, argv));
    return refuse(Unexpected(word, *verb->app));
  }

  const Result<int> code = verb->run();
  if (Interrupted()) {
    SayInterrupted();
    return kInterrupted;
  }
  if (code) return *code;
  return code.error().kind == ErrorKind::kTold ? kBadInput : refuse_as(code.error());
}

}  // namespace
}  // namespace ebbtide::cli

namespace {

// What one stage frees the next one takes: memory is kept in between, not handed back and asked for again. The heap
// grows by many pages at a time, large ones where the system has them: a graph of a large model would ask for 20,000
// small ones, each a fault.
void SetUpHeap() {
  constexpr std::size_t kLarge = 2 << 20, kGrowth = 128 << 20;
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  mallopt(M_TOP_PAD, kGrowth);
  std::free(std::malloc(kLarge));  // the heap is there, with the first growth
  const auto end = reinterpret_cast<std::uintptr_t>(sbrk(0)) / kLarge * kLarge;
  // That it is refused is no harm.
  if (end > kGrowth) (void)madvise(reinterpret_cast<void*>(end - kGrowth + kLarge), kGrowth - kLarge, MADV_HUGEPAGE);
}

}  // namespace

int main(int argc, char** argv) {
  SetUpHeap();
  try {
    ebbtide::cli::NoteCommandLine(argc, argv);
    ebbtide::cli::HandleInterrupts();
    return ebbtide::cli::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    ebbtide::cli::PrintError("", "out of memory");
  } catch (const std::exception& error) {
    ebbtide::cli::PrintError("", error.what());
  }
  return ebbtide::cli::kBadInput;
}
