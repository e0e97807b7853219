// Flags of ranks.
#include "cli/layout_flags.h"

#include <memory>
#include <string>

#include "cli/common_flags.h"
#include "cli/word_flags.h"

namespace ebbtide::cli {
namespace {

using parallel::DataParallel;

// A flag may be bare: CLI11 then hands over "true".
void ParseFsdp(const std::string& text, DataParallel& data) {
  const auto version = ParseWord(parallel::kFsdpWords, text == "true" ? "2" : text);
  if (!version) throw CLI::ValidationError("--fsdp", version.error().message + ", the version of torch's FSDP");
  data = *version;
}

}  // namespace

void AddLayoutFlags(CLI::App& verb, parallel::Layout& layout) {
  verb.option_defaults()->group("Ranks");
  const auto number = [&](const char* flag, std::int64_t& value, const char* help) {
    verb.add_option(flag, value, help)->type_name("N")->check(Check(CheckPositive));
  };
  number("--gpus", layout.gpus, "GPUs that train together; figures are those of one rank (default 1)");
  verb.add_flag_callback(
          "--ddp", [&layout] { layout.data = DataParallel::kDdp; },
          "DistributedDataParallel: the whole model on every GPU")
      ->disable_flag_override();
  const auto version = std::make_shared<std::string>();
  verb.add_flag("--fsdp", *version, "Fully sharded, as torch's fully_shard (=1: as its FullyShardedDataParallel)")
      ->each([&layout, version](const std::string& text) { ParseFsdp(text, layout.data); });
  AddWords(verb, "--zero", parallel::kZeroWords, layout.data, "Sharded as DeepSpeed's ZeRO of that stage: 1, 2 or 3")
      ->type_name("STAGE");
  number("--tp", layout.tp, "Ranks that share every matrix (tensor parallel)");
  number("--pp", layout.pp, "Stages, one behind the other (pipeline parallel)");
  number("--microbatches", layout.microbatches, "With --pp: batches that pass the stages in a step (default: --pp)");
  number("--chunks", layout.chunks, "With --pp: parts of the model on each GPU, interleaved (default 1)");
  verb.add_flag(
          "--reduce-each-batch", layout.reduces_each_batch,
          "With --fsdp and --accumulate: gradients of every batch are reduced, as Lightning and torchtitan have it")
      ->disable_flag_override();
  number("--cp", layout.cp, "Ranks that share a sequence (context parallel)");
}

}  // namespace ebbtide::cli
