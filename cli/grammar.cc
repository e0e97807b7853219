// Reads flags and words off CLI11, and knows what can be listed behind each.
#include "cli/grammar.h"

#include <algorithm>
#include <array>
#include <map>

#include "device/profile.h"
#include "jobs/cache.h"
#include "jobs/plan.h"
#include "jobs/replay.h"
#include "jobs/training.h"
#include "model/model.h"
#include "model/option_words.h"
#include "model/update_rules.h"
#include "report/text/scheduler.h"

namespace ebbtide::cli {
namespace {

using Names = std::vector<std::string>;

Names Gpus() {
  Names names;
  for (const DeviceProfile& profile : BuiltInProfiles()) names.push_back(profile.name);
  return names;
}

Names Models() {
  Names names;
  for (const model::BuiltInModel& model : model::BuiltInModels()) names.push_back(model.name);
  return names;
}

Names Allocators() {
  Names names;
  for (const alloc::AllocatorModel& model : trace::ReplayModels()) names.emplace_back(model.name);
  return names;
}

Names Optimizers() {
  Names names = model::OptimizerNames();
  names.emplace_back("none");
  return names;
}

template <class T, std::size_t N>
Names NamesOf(const std::array<ebbtide::Word<T>, N>& words) {
  Names names;
  for (const auto& word : words) names.emplace_back(word.name);
  return names;
}

// By a flag's long name; behind "VERB ", for that verb alone.
const std::map<std::string, Names>& Listed() {
  static const auto* const listed = new std::map<std::string, Names>{
      {"allocator", Allocators()},
      {"attention", NamesOf(model::kAttentionWords)},
      {"autocast", NamesOf(model::kAutocastWords)},
      {"check", {"race"}},
      {"clear", jobs::ClearableKinds()},
      {"cublas-workspace", {"none", "kept", "per-call"}},
      {"cuda", {"12", "13"}},
      {"device", NamesOf(model::kDeviceWords)},
      {"dtype", NamesOf(model::kDtypeWords)},
      {"emit", report::SchedulerNames()},
      {"framework", jobs::FrameworkNames()},
      {"gpu", Gpus()},
      {"kernels", NamesOf(model::kKernelWords)},
      {"capture kernels", {"eager", "inductor"}},
      {"loop", {"plain", "trainer"}},
      {"loss", NamesOf(model::kLossWords)},
      {"optimizer", Optimizers()},
      {"policy", jobs::PolicyNames()},
      {"pool", {"naive", "round", "growth", "fixed"}},
      {"quantize", NamesOf(model::kQuantizeWords)},
      {"zero-grad", {"start", "before-backward", "end"}},
  };
  return *listed;
}

// Null where nothing is listed.
const Names* ListedBehind(const std::string& verb, const std::string& flag) {
  for (const std::string& key : {verb + " " + flag, flag}) {
    const auto found = Listed().find(key);
    if (found != Listed().end()) return &found->second;
  }
  return nullptr;
}

bool IsPath(const std::string& value) { return value.find("FILE") != std::string::npos || value == "PLAN.json"; }

Flag FlagOf(const std::string& verb, const CLI::Option& option) {
  Flag flag;
  if (!option.get_snames().empty()) flag.short_name = "-" + option.get_snames().front();
  if (!option.get_lnames().empty()) flag.long_name = "--" + option.get_lnames().front();
  flag.description = option.get_description();
  flag.group = option.get_group();
  if (option.get_type_size() == 0) return flag;
  flag.value = option.get_type_name();
  flag.values = IsPath(flag.value) ? Values::kFiles : Values::kText;
  const Names* const listed = ListedBehind(verb, flag.long_name.empty() ? "" : flag.long_name.substr(2));
  if (listed != nullptr && flag.value != "N" && flag.value != "PLACEMENT") {
    flag.values = flag.values == Values::kFiles ? Values::kListedOrFiles : Values::kListed;
    flag.listed = *listed;
  }
  return flag;
}

Word WordOf(const CLI::Option& option) {
  Word word{.name = option.get_name(true, false), .description = option.get_description()};
  const auto holds = [&](const char* part) { return word.name.find(part) != std::string::npos; };
  if (holds("MODEL")) {
    word.values = Values::kListedOrFiles;
    word.listed = Models();
  } else if (holds(".json") || holds(".py") || word.name == "FILE" || word.name == "INSTANCE" || word.name == "TRACE") {
    word.values = Values::kFiles;
  } else if (word.name == "SHELL") {
    word.values = Values::kListed;
    word.listed = {"bash", "zsh", "fish"};
  }
  return word;
}

}  // namespace

bool RunsProgram(std::string_view verb) { return verb == "dryrun" || verb == "run"; }

VerbGrammar GrammarOfVerb(const CLI::App& verb) {
  VerbGrammar grammar{
      .name = verb.get_name(), .description = verb.get_description(), .words = {}, .flags = {}, .groups = {}};
  for (const CLI::Option* option : verb.get_options()) {
    if (option->get_positional()) grammar.words.push_back(WordOf(*option));
  }
  for (const std::string& group : verb.get_groups()) {
    const std::size_t before = grammar.flags.size();
    for (const CLI::Option* option : verb.get_options()) {
      if (option->get_group() == group && option->nonpositional() && option != verb.get_help_ptr()) {
        grammar.flags.push_back(FlagOf(grammar.name, *option));
      }
    }
    if (grammar.flags.size() > before) grammar.groups.push_back(group);
  }
  return grammar;
}

std::vector<VerbGrammar> GrammarOf(const CLI::App& program) {
  std::vector<VerbGrammar> verbs;
  for (const CLI::App* verb : program.get_subcommands([](const CLI::App*) { return true; })) {
    verbs.push_back(GrammarOfVerb(*verb));
  }
  const auto help = std::ranges::find(verbs, "help", &VerbGrammar::name);
  if (help != verbs.end()) {
    for (Word& word : help->words) {
      word.values = Values::kListed;
      for (const VerbGrammar& verb : verbs) word.listed.push_back(verb.name);
    }
  }
  return verbs;
}

}  // namespace ebbtide::cli
