// Flags that several verbs share, and what they mean to a job.
#include "cli/common_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <thread>

#include "base/nearest.h"
#include "cli/language_flags.h"
#include "cli/word_flags.h"
#include "model/option_words.h"

namespace ebbtide::cli {
namespace {

constexpr const char* kModelGroup = "Model";
constexpr const char* kOutputGroup = "Output";
constexpr std::int64_t kMostThreads = 1024;
constexpr std::int64_t kMostPasses = 1024;
constexpr std::int64_t kMostRank = 65536;
constexpr const char* kBareFlag = "true";  // what CLI11 has for a flag without a value

std::optional<std::int64_t> ParseWhole(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "784,512,10".
void ParseWidths(const std::string& text, std::vector<std::int64_t>& widths) {
  widths.clear();
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto width = ParseWhole(std::string_view(text).substr(begin, end - begin));
    if (!width || *width <= 0) {
      throw CLI::ValidationError("--widths",
                                 fmt::format("expected positive whole numbers with commas between, found {}", text));
    }
    widths.push_back(*width);
    begin = end + 1;
  }
  if (widths.size() < 2) {
    throw CLI::ValidationError("--widths", fmt::format("expected at least two, of input and output, found {}", text));
  }
}

void ParseCheckpoint(const std::string& text, model::ModelOptions& options) {
  if (const Status status = model::SetCheckpoint(text == kBareFlag ? "" : text, options); !status) {
    throw CLI::ValidationError("--checkpoint", status.error().message);
  }
}

std::string CheckUpTo(std::int64_t most, const std::string& text) {
  const auto number = ParseWhole(text);
  if (number && *number > 0 && *number <= most) return {};
  return fmt::format("expected a whole number from 1 to {}, found {}", most, text.empty() ? "nothing" : text);
}
std::string CheckThreads(const std::string& text) { return CheckUpTo(kMostThreads, text); }
std::string CheckAccumulate(const std::string& text) { return CheckUpTo(kMostPasses, text); }
std::string CheckRank(const std::string& text) { return CheckUpTo(kMostRank, text); }

std::string CheckShare(std::string& text) {
  double share = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error == std::errc() && end == text.data() + text.size() && share >= 0 && share < 1) return {};
  return fmt::format("expected a number from 0 to 1, found {}", text.empty() ? "nothing" : text);
}

std::string CheckPattern(const std::string& text) {
  return text.empty() ? "expected a pattern of paths, as 'layer1.*', found nothing" : "";
}

}  // namespace

CLI::Validator Check(std::string (*check)(const std::string&)) {
  return CLI::Validator([check](std::string& text) { return check(text); }, "");
}

std::string CheckPositive(const std::string& text) {
  const auto number = ParseWhole(text);
  if (number && *number > 0) return {};
  return fmt::format("expected a positive whole number, found {}", text.empty() ? "nothing" : text);
}

std::string CheckNotNegative(const std::string& text) {
  const auto number = ParseWhole(text);
  if (number && *number >= 0) return {};
  return fmt::format("expected a whole number from 0 on, found {}", text.empty() ? "nothing" : text);
}

int ThreadsOf(const OutputFlags& flags) {
  return flags.threads > 0 ? flags.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

void AddFilesFlag(CLI::App& verb, std::vector<std::string>& files, const std::string& kinds) {
  verb.add_option("-o,--output", files, "May be given several times: " + kinds)
      ->type_name("FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void AddOutputFlags(CLI::App& verb, OutputFlags& flags, const char* output) {
  verb.option_defaults()->group(kOutputGroup);
  verb.add_flag("--json", flags.json, "One JSON object on standard output, raw bytes and nanoseconds")
      ->disable_flag_override();
  if (output != nullptr) verb.add_option("-o,--output", flags.output, output)->type_name("FILE");
  verb.add_flag("-q,--quiet", flags.quiet, "Nothing on standard error but errors")->disable_flag_override();
  verb.add_flag("-v,--verbose", flags.verbose, "Say on standard error what is being done")->disable_flag_override();
  verb.add_option("--seed", flags.seed, "Seed of every random choice (default 0)")
      ->type_name("N")
      ->check(Check(CheckNotNegative));
  verb.add_option("--threads", flags.threads, "Threads to use (default: one per processor)")
      ->type_name("N")
      ->check(Check(CheckThreads));
}

namespace {

// A pattern per mention of the flag.
CLI::Option* AddPatterns(CLI::App& verb, const char* name, std::vector<std::string>& patterns,
                         const char* description) {
  return verb.add_option(name, patterns, description)
      ->type_name("PATTERN")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(Check(CheckPattern));
}

// What is trained.
void AddFineTuningFlags(CLI::App& verb, ModelFlags& flags) {
  model::ModelOptions& options = flags.options;
  CLI::Option* freeze = AddPatterns(verb, "--freeze", options.freeze,
                                    "Parameters or modules not to train, as 'layer1.*'; may be given several times");
  CLI::Option* lora = verb.add_option("--lora", options.lora, "Train adapters of this rank alone, as peft adds them")
                          ->type_name("RANK")
                          ->check(Check(CheckRank));
  CLI::Option* targets = AddPatterns(verb, "--lora-targets", options.lora_targets,
                                     "Linear layers that get an adapter (default: peft's for the model)");
  CLI::Option* dropout =
      verb.add_option("--lora-dropout", options.lora_dropout, "Dropout in front of adapters (default 0)")
          ->type_name("SHARE")
          ->check(CLI::Validator(CheckShare, ""));
  flags.choices.insert(flags.choices.end(), {freeze, lora, targets, dropout});
}

// How a batch is cut up, and what is kept of it.
void AddSavingFlags(CLI::App& verb, ModelFlags& flags) {
  model::ModelOptions& options = flags.options;
  CLI::Option* accumulate = verb.add_option("--accumulate", options.accumulate,
                                            "Batches whose gradients are summed before an update (default 1)")
                                ->type_name("N")
                                ->check(Check(CheckAccumulate));
  CLI::Option* checkpoint =
      verb.add_flag(
              "--checkpoint", flags.checkpoint,
              "Recompute blocks in backward, as torch.utils.checkpoint does (=PATTERN: these layers; =reentrant: as "
              "its older form; =every:N: every so many-th block; =offload: what goes into blocks waits on the host)")
          ->each([&](const std::string& text) { ParseCheckpoint(text, options); });
  CLI::Option* clip =
      verb.add_flag("--clip", options.clip, "Scale gradients to a norm before the update")->disable_flag_override();
  flags.choices.insert(flags.choices.end(), {accumulate, checkpoint, clip});
}

void AddStepFlags(CLI::App& verb, ModelFlags& flags) {
  model::ModelOptions& options = flags.options;
  flags.choices.push_back(verb.add_flag("--inference", options.inference,
                                        "The model's outputs alone: no loss, no backward, no update, dropout off")
                              ->disable_flag_override());
  flags.choices.push_back(AddWords(verb, "--autocast", model::kAutocastWords, options.autocast,
                                   "Mixed precision as torch.autocast gives it on cuda: bf16 or fp16")
                              ->type_name("TYPE"));
  AddFineTuningFlags(verb, flags);
  AddSavingFlags(verb, flags);
  AddLanguageFlags(verb, flags);
}

}  // namespace

void AddModelFlags(CLI::App& verb, ModelFlags& flags) {
  verb.add_option(
          "MODEL", flags.model,
          "A name that `ebbtide models` lists, an .onnx, a TensorFlow .pb or SavedModel folder, an MXNet -symbol.json, "
          "a Hugging Face folder or its config.json, a graph or timed trace .json[.gz], a layer profile .txt, or a "
          "SCRIPT.py:function")
      ->type_name("");
  AddShapeFlags(verb, flags);
  AddStepFlags(verb, flags);
  flags.choices.push_back(
      verb.add_flag("--assume-elementwise", flags.options.assume_elementwise,
                    "Take an operator that is not known for one that keeps the shape and saves its inputs")
          ->disable_flag_override());
}

void AddShapeFlags(CLI::App& verb, ModelFlags& flags) {
  model::ModelOptions& options = flags.options;
  verb.option_defaults()->group(kModelGroup);
  const auto number = [&](const char* name, auto& value, const char* description) {
    flags.choices.push_back(verb.add_option(name, value, description)->type_name("N")->check(Check(CheckPositive)));
  };
  number("--batch-size", options.batch_size, "Samples per step (default 32)");
  number("--image-size", options.image_size, "Height and width of images, in pixels");
  number("--seq-len", options.seq_len, "Tokens per sample");
  number("--classes", options.classes, "Outputs of a classifier");
  flags.choices.push_back(verb.add_option_function<std::string>(
                                  "--widths", [&](const std::string& text) { ParseWidths(text, options.widths); },
                                  "Layers of mlp: input, hidden ..., output, as 784,512,10")
                              ->type_name("N,N,..."));
  flags.choices.push_back(
      verb.add_option("--optimizer", options.optimizer, "Whose update ends the step (default sgd; none: no update)")
          ->type_name("NAME"));
  flags.choices.push_back(AddWords(verb, "--device", model::kDeviceWords, options.device,
                                   "Whose kernels run, for what they save: cpu (default) or cuda"));
}

jobs::ModelRequest RequestOf(const ModelFlags& flags, std::vector<std::string> other_batches) {
  jobs::ModelRequest request{.model = flags.model,
                             .options = flags.options,
                             .given = {},
                             .other_batches = std::move(other_batches),
                             .graph = {},
                             .other_graphs = {},
                             .layout = flags.layout};
  for (const CLI::Option* flag : flags.choices) {
    if (flag->count() > 0) request.given.insert(flag->get_name());
  }
  return request;
}

std::vector<std::string> ShapeWords(const jobs::ModelRequest& request) {
  const model::ModelOptions& options = request.options;
  std::vector<std::string> words;
  const auto add = [&](const char* flag, const auto& value) {
    if (request.Gave(flag)) words.push_back(fmt::format("{}={}", flag, value));
  };
  add("--batch-size", options.batch_size);
  add("--image-size", options.image_size.value_or(0));
  add("--seq-len", options.seq_len.value_or(0));
  add("--classes", options.classes.value_or(0));
  add("--widths", fmt::format("{}", fmt::join(options.widths, ",")));
  add("--optimizer", options.optimizer);
  add("--device", options.device == model::Device::kCuda ? "cuda" : "cpu");
  return words;
}

Status CheckBuiltIn(const std::string& name, std::string_view expected) {
  std::vector<std::string> names;
  for (const model::BuiltInModel& built_in : model::BuiltInModels()) names.push_back(built_in.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return {};
  return Fail("{}: expected {}{}", name, expected, DidYouMean(name, names));
}

}  // namespace ebbtide::cli
