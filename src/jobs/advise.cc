// Tries sets of measures by estimates: each with the largest part of the batch that fits at once.
#include "jobs/advise.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "device/op_time.h"
#include "estimate/estimate.h"
#include "estimate/safety.h"
#include "jobs/plan.h"
#include "jobs/step.h"
#include "model/hf/hf.h"

namespace ebbtide::jobs {
namespace {

using parallel::DataParallel;

constexpr std::int64_t kAdapterRank = 16;
constexpr double kSameTime = 1.01;

struct Measure {
  const char* flags;  // of `ebbtide estimate`
  // Whether there is something to change; where there is, changes it.
  bool (*apply)(ModelRequest& request);
  const char* text;
};

bool IsAdam(const std::string& optimizer) { return optimizer == "adam" || optimizer.starts_with("adamw"); }

bool FuseAttention(ModelRequest& request) {
  if (SourceOf(request) != model::ModelSource::kHuggingFace) return false;
  if (request.options.attention != model::AttentionKernel::kEager) return false;
  request.options.attention = model::AttentionKernel::kSdpa;
  return true;
}

bool FuseLoss(ModelRequest& request) {
  if (SourceOf(request) != model::ModelSource::kHuggingFace) return false;
  if (request.options.loss != model::LossKernel::kPlain) return false;
  if (!model::hf::HasFusedLoss(model::hf::ConfigPath(request.model))) return false;  // nothing to copy
  request.options.loss = model::LossKernel::kFused;
  return true;
}

bool Checkpoint(ModelRequest& request) {
  if (request.options.checkpoint || request.options.inference) return false;
  request.options.checkpoint = "";
  return true;
}

bool EightBit(ModelRequest& request) {
  if (!IsAdam(request.options.optimizer)) return false;
  for (const char* small : {"8bit", "paged"}) {  // 8-bit state already
    if (request.options.optimizer.find(small) != std::string::npos) return false;
  }
  request.options.optimizer = "adamw-8bit";
  return true;
}

bool Shard(ModelRequest& request) {
  if (request.layout.data != DataParallel::kDdp) return false;
  request.layout.data = DataParallel::kFsdp2;
  return true;
}

bool Adapt(ModelRequest& request) {
  if (request.options.lora) return false;
  request.options.lora = kAdapterRank;
  return true;
}

bool Quantize(ModelRequest& request) {
  if (SourceOf(request) != model::ModelSource::kHuggingFace || request.options.quantize) return false;
  request.options.quantize = model::Quantization::kNf4;
  return true;
}

// Those that leave what is learnt alone come first; the last two train something else.
constexpr Measure kMeasures[] = {
    {"--attention sdpa", FuseAttention,
     "attention in one kernel: from_pretrained(..., attn_implementation=\"sdpa\"), or \"flash_attention_2\""},
    {"--loss fused", FuseLoss, "fused linear cross-entropy (liger-kernel): TrainingArguments(use_liger_kernel=True)"},
    {"--checkpoint", Checkpoint,
     "activation checkpointing: TrainingArguments(gradient_checkpointing=True); plain PyTorch: "
     "torch.utils.checkpoint.checkpoint around each block"},
    {"--optimizer adamw-8bit", EightBit,
     "8-bit AdamW (bitsandbytes): TrainingArguments(optim=\"adamw_bnb_8bit\"); plain PyTorch: "
     "bitsandbytes.optim.AdamW8bit(model.parameters())"},
    {"--fsdp", Shard,
     "fully sharded: TrainingArguments(fsdp=\"full_shard auto_wrap\"); plain PyTorch: fully_shard(block) for each "
     "block, then fully_shard(model); Lightning: ModelParallelStrategy"},
    {"--lora 16", Adapt, "LoRA of rank 16, which trains adapters alone: peft.LoraConfig(r=16)"},
    {"--quantize nf4", Quantize,
     "the frozen weights in 4 bits (QLoRA): BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=\"nf4\", "
     "bnb_4bit_use_double_quant=True)"},
};
constexpr unsigned kFsdp = 1u << 4, kLora = 1u << 5, kNf4 = 1u << 6, kSets = 1u << std::size(kMeasures);
static_assert(std::string_view(kMeasures[4].flags) == "--fsdp" && std::string_view(kMeasures[5].flags) == "--lora 16" &&
              std::string_view(kMeasures[6].flags) == "--quantize nf4");
constexpr double kSecondsForPlan = 10;

// Optimizers whose update is part of a plan; others run behind a step, beside its budget.
constexpr std::string_view kPlannedOptimizers[] = {"none", "sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad"};

// Whether ebbtide.step takes it: torch's own ops and optimizers.
bool RunsByPlan(const ModelRequest& request) {
  const model::ModelOptions& options = request.options;
  return request.layout.gpus == 1 && !options.inference && !options.quantize &&
         options.loss == model::LossKernel::kPlain && options.kernels == model::KernelSet::kPlain &&
         std::ranges::find(kPlannedOptimizers, options.optimizer) != std::end(kPlannedOptimizers);
}

struct Cost {
  Bytes total = 0, safe = 0;
  Bytes beside = 0;             // what no plan is for: the context, at most, and loaded code
  Bytes lasting = 0;            // weights, buffers and state
  double pass = 0, update = 0;  // nanoseconds
};

class Adviser {
 public:
  Adviser(const AdviseRequest& request, const JobContext& context, estimate::Options options)
      : request_(request), context_(context), options_(std::move(options)) {}

  Result<AdviseResult> Run() {
    AdviseResult out;
    out.model = request_.model.model;
    out.gpu = options_.gpu.name;
    out.capacity = options_.gpu.memory;
    ModelRequest plain = request_.model;
    if (plain.layout.gpus > 1 && plain.layout.data == DataParallel::kNone && plain.layout.data_ranks() > 1) {
      plain.layout.data = DataParallel::kDdp;
      out.notes.emplace_back("several GPUs without a layout: taken to begin as DistributedDataParallel");
    }
    EBB_ASSIGN_OR_RETURN(const Cost before, CostOf(plain));
    out.meta = meta_;
    out.plain.fits = Fits(before);
    out.plain.total = before.total;
    out.plain.safe = before.safe;
    plain_time_ = before.pass + before.update;
    if (!out.plain.fits) EBB_RETURN_IF_ERROR(TryAll(plain, before, out));
    out.tried = tried_;
    out.notes.emplace_back(
        "times are modelled op times, with collectives over the links of the GPU's profile and without copies to the "
        "host; what is "
        "learnt with LoRA is not what is learnt without");
    return out;
  }

 private:
  bool Fits(const Cost& cost) const { return cost.safe <= options_.gpu.memory; }

  Result<Cost> CostOf(const ModelRequest& request) {
    ++tried_;
    EBB_RETURN_IF_ERROR(context_.CheckStop());
    EBB_ASSIGN_OR_RETURN(const std::shared_ptr<const TrainingGraph> graph, LoadModel(request, context_));
    if (meta_.empty()) meta_ = graph->meta;
    const estimate::Estimate estimate = estimate::EstimateTraining(*graph, options_);
    Cost cost{.total = estimate.total(), .safe = estimate::SafeTotal(estimate, *graph).bytes};
    cost.beside = estimate.context + estimate.context_margin + estimate.loaded_code;
    for (const Storage& storage : graph->storages) cost.lasting += IsPersistent(storage.kind) ? storage.bytes : 0;
    const std::vector<Nanos> times = OpTimes(*graph, options_.gpu);
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (graph->ops[i].phase == Phase::kUpdate) cost.update += static_cast<double>(times[i]);
    }
    cost.pass = static_cast<double>(StepTime(*graph, options_.gpu)) - cost.update;
    cost.pass /= static_cast<double>(request.options.accumulate);
    return cost;
  }

  // The set with the largest part of the batch that fits, or one sample at a time.
  Result<Proposal> Try(ModelRequest request, const Cost& before, const Proposal& measures, bool sharded) {
    const std::int64_t batch = request.options.batch_size, passes = request.options.accumulate;
    Proposal best;
    for (std::int64_t parts = 1; parts <= batch; parts *= 2) {
      if (batch % parts != 0 || (parts > 1 && sharded)) break;
      ModelRequest part = request;
      part.options.batch_size = batch / parts;
      part.options.accumulate = std::min<std::int64_t>(passes * parts, 2);  // a third batch takes what the second does
      EBB_ASSIGN_OR_RETURN(const Cost cost, CostOf(part));
      best = measures;
      best.fits = Fits(cost);
      best.total = cost.total;
      best.safe = cost.safe;
      best.saved = before.total - cost.total;
      best.time_ratio = (cost.pass * static_cast<double>(passes * parts) + cost.update) / plain_time_;
      if (parts > 1) {
        best.measures.insert(best.measures.begin(),
                             fmt::format("{} at a time, {} times before an update: "
                                         "TrainingArguments(per_device_train_batch_size={}, "
                                         "gradient_accumulation_steps={}); Lightning: accumulate_grad_batches={}",
                                         batch == parts ? "1 sample" : fmt::format("{} samples", batch / parts),
                                         passes * parts, batch / parts, passes * parts, passes * parts));
        best.flags.push_back(fmt::format("--batch-size {}", batch / parts));
        best.flags.push_back(fmt::format("--accumulate {}", passes * parts));
      }
      if (best.fits) break;
    }
    return best;
  }

  // The whole batch as it is, within what the GPU has to spare, by copies to the host and recomputation; none: there is
  // no such plan, or the engine that runs it is not for such a job.
  Result<std::optional<Proposal>> TryPlan(const ModelRequest& plain, const Cost& before) {
    std::optional<Proposal> none;
    const Bytes margin = before.beside + estimate::SafetyRule{}.code;
    const Bytes budget = options_.gpu.memory - margin;
    if (!RunsByPlan(plain) || before.lasting >= budget) return none;
    context_.Tell({.phase = "planning", .share = 0, .note = {}});
    ++tried_;
    PlanRequest request{.model = plain, .gpu = options_.gpu, .budget = {.bytes = budget, .percent = {}, .text = {}}};
    request.bound = false;
    request.time_limit = kSecondsForPlan;
    EBB_ASSIGN_OR_RETURN(const PlanResult planned, Plan(request, context_));
    if (!planned.feasible()) return none;
    Proposal out;
    out.measures = {
        fmt::format("a plan that copies to the host and recomputes, of one GPU's step as a whole: ebbtide.step(model, "
                    "loss_fn, optimizer, batch, budget=\"{:.1f}GiB\", device=\"cuda\")",
                    static_cast<double>(budget / (kGiB / 10)) / 10)};
    out.fits = true;
    out.total = before.beside + planned.planned.plan->peak;
    out.safe = out.total + estimate::SafetyRule{}.code;
    out.saved = before.total - out.total;
    out.time_ratio = static_cast<double>(planned.planned.plan->time) / static_cast<double>(planned.plain_time);
    return std::optional(std::move(out));
  }

  Status TryAll(const ModelRequest& plain, const Cost& before, AdviseResult& out) {
    std::vector<Proposal> all;
    auto planned = TryPlan(plain, before);
    if (!planned && planned.error().kind == ErrorKind::kStopped) return tl::unexpected<Error>(planned.error());
    if (!planned) out.notes.push_back("not tried: a plan: " + planned.error().message);
    if (planned && *planned) all.push_back(**std::move(planned));
    std::vector<unsigned> fitting;  // sets that fit by themselves: what adds to them is not better
    for (unsigned set = 0; set < kSets; ++set) {
      context_.Tell({.phase = "trying measures", .share = static_cast<double>(set) / kSets, .note = {}});
      if ((set & kNf4) != 0 && (set & kLora) == 0) continue;
      const bool adds =
          std::any_of(fitting.begin(), fitting.end(), [&](unsigned less) { return (set & less) == less; });
      if (adds) continue;
      ModelRequest request = plain;
      Proposal measures;
      measures.trains_adapters = (set & kLora) != 0;
      bool applies = true;
      for (std::size_t i = 0; i < std::size(kMeasures); ++i) {
        if ((set >> i & 1) == 0) continue;
        applies = applies && kMeasures[i].apply(request);
        measures.measures.push_back(kMeasures[i].text);
        measures.flags.push_back(kMeasures[i].flags);
      }
      if (!applies) continue;
      const std::size_t alone = measures.measures.size();
      auto tried = Try(std::move(request), before, measures, (set & kFsdp) != 0);
      if (!tried && tried.error().kind == ErrorKind::kStopped) return tl::unexpected<Error>(tried.error());
      // A model without blocks cannot be checkpointed, one without linear layers has no adapters.
      if (!tried && alone == 1) out.notes.push_back("not tried: " + tried.error().message);
      if (!tried || (set == 0 && tried->measures.empty())) continue;
      if (tried->fits && tried->measures.size() == alone) fitting.push_back(set);
      all.push_back(*std::move(tried));
    }
    std::stable_sort(all.begin(), all.end(), [](const Proposal& a, const Proposal& b) {
      if (a.fits != b.fits) return a.fits;
      if (a.fits && a.trains_adapters != b.trains_adapters) return b.trains_adapters;
      return a.fits ? a.time_ratio < b.time_ratio : a.safe < b.safe;
    });
    // What does more than another proposal, and gains nothing by it, helps nobody.
    const auto is_more_than = [](const Proposal& more, const Proposal& less) {
      if (!less.fits || &more == &less || less.measures.size() >= more.measures.size()) return false;
      if (less.time_ratio > kSameTime * more.time_ratio) return false;
      return std::all_of(less.measures.begin(), less.measures.end(), [&](const std::string& measure) {
        return std::find(more.measures.begin(), more.measures.end(), measure) != more.measures.end();
      });
    };
    std::vector<Proposal> kept;
    for (const Proposal& one : all) {
      const bool more =
          std::any_of(all.begin(), all.end(), [&](const Proposal& other) { return is_more_than(one, other); });
      if (!more) kept.push_back(one);
    }
    all = std::move(kept);
    const bool any = !all.empty() && all.front().fits;
    for (Proposal& proposal : all) {
      if (out.proposals.size() < request_.most && (proposal.fits || !any)) out.proposals.push_back(std::move(proposal));
    }
    return {};
  }

  const AdviseRequest& request_;
  const JobContext& context_;
  const estimate::Options options_;
  double plain_time_ = 1;
  std::int64_t tried_ = 0;
  std::map<std::string, std::string> meta_;  // of the first that was tried
};

}  // namespace

Result<AdviseResult> Advise(const AdviseRequest& request, const JobContext& context) {
  EBB_RETURN_IF_ERROR(CheckNamed(request.model));
  EBB_ASSIGN_OR_RETURN(const Training training, ParseTraining(request.training, request.model));
  const model::ModelSource source = SourceOf(request.model);
  if (source != model::ModelSource::kHuggingFace && source != model::ModelSource::kBuiltIn) {
    return Fail("{}: expected a built-in model or a Hugging Face configuration, whose step can be changed",
                request.model.model);
  }
  estimate::Options options = training.options;
  EBB_ASSIGN_OR_RETURN(options.gpu, FindProfile(request.gpu));
  return Adviser(request, context, std::move(options)).Run();
}

}  // namespace ebbtide::jobs
