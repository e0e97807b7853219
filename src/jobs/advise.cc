// Tries sets of measures by estimates: each with the largest part of the batch that fits at once.
#include "jobs/advise.h"

#include <algorithm>

#include "device/op_time.h"
#include "estimate/estimate.h"
#include "estimate/safety.h"

namespace ebbtide::jobs {
namespace {

using parallel::DataParallel;

constexpr std::int64_t kAdapterRank = 16;
constexpr double kSameTime = 1.01;

struct Measure {
  const char* name;
  // Whether there is something to change; where there is, changes it.
  bool (*apply)(ModelRequest& request);
  const char* text;
};

bool IsAdam(const std::string& optimizer) { return optimizer == "adam" || optimizer.starts_with("adamw"); }

bool FuseLoss(ModelRequest& request) {
  if (SourceOf(request) != model::ModelSource::kHuggingFace) return false;
  if (request.options.loss != model::LossKernel::kPlain) return false;
  request.options.loss = model::LossKernel::kFused;
  return true;
}

bool Checkpoint(ModelRequest& request) {
  if (request.options.checkpoint || request.options.inference) return false;
  request.options.checkpoint = "";
  return true;
}

bool EightBit(ModelRequest& request) {
  if (!IsAdam(request.options.optimizer) || request.options.optimizer.find("8bit") != std::string::npos) return false;
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
    {"loss", FuseLoss, "fused linear cross-entropy (liger-kernel): TrainingArguments(use_liger_kernel=True)"},
    {"checkpoint", Checkpoint,
     "activation checkpointing: TrainingArguments(gradient_checkpointing=True); plain PyTorch: "
     "torch.utils.checkpoint.checkpoint around each block"},
    {"8-bit", EightBit,
     "8-bit AdamW (bitsandbytes): TrainingArguments(optim=\"adamw_bnb_8bit\"); plain PyTorch: "
     "bitsandbytes.optim.AdamW8bit(model.parameters())"},
    {"fsdp", Shard,
     "fully sharded: TrainingArguments(fsdp=\"full_shard auto_wrap\"); plain PyTorch: fully_shard(block) for each "
     "block, then fully_shard(model); Lightning: ModelParallelStrategy"},
    {"lora", Adapt, "LoRA of rank 16, which trains adapters alone: peft.LoraConfig(r=16)"},
    {"nf4", Quantize,
     "the frozen weights in 4 bits (QLoRA): BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=\"nf4\", "
     "bnb_4bit_use_double_quant=True)"},
};
constexpr unsigned kLora = 1u << 4, kNf4 = 1u << 5, kFsdp = 1u << 3, kSets = 1u << 6;

struct Cost {
  Bytes total = 0, safe = 0;
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
      out.notes.push_back("several GPUs without a layout: taken to begin as DistributedDataParallel");
    }
    EBB_ASSIGN_OR_RETURN(const Cost before, CostOf(plain));
    out.plain = {{}, Fits(before), before.total, before.safe, 0, 1, false};
    plain_time_ = before.pass + before.update;
    if (!out.plain.fits) EBB_RETURN_IF_ERROR(TryAll(plain, before, out));
    out.tried = tried_;
    out.notes.push_back(
        "times are modelled op times of one GPU, without collectives and copies to the host; what is "
        "learnt with LoRA is not what is learnt without");
    return out;
  }

 private:
  bool Fits(const Cost& cost) const { return cost.safe <= options_.gpu.memory; }

  Result<Cost> CostOf(const ModelRequest& request) {
    ++tried_;
    EBB_RETURN_IF_ERROR(context_.CheckStop());
    EBB_ASSIGN_OR_RETURN(const std::shared_ptr<const TrainingGraph> graph, LoadModel(request, context_));
    const estimate::Estimate estimate = estimate::EstimateTraining(*graph, options_);
    Cost cost{estimate.total(), estimate::SafeTotal(estimate, *graph).bytes, 0, 0};
    const std::vector<Nanos> times = OpTimes(*graph, options_.gpu);
    for (std::size_t i = 0; i < times.size(); ++i) {
      (graph->ops[i].phase == Phase::kUpdate ? cost.update : cost.pass) += static_cast<double>(times[i]);
    }
    cost.pass /= static_cast<double>(request.options.accumulate);
    return cost;
  }

  // The set with the largest part of the batch that fits, or one sample at a time.
  Result<Proposal> Try(ModelRequest request, const Cost& before, std::vector<std::string> measures, bool sharded,
                       bool adapters) {
    const std::int64_t batch = request.options.batch_size, passes = request.options.accumulate;
    Proposal best;
    for (std::int64_t parts = 1; parts <= batch; parts *= 2) {
      if (batch % parts != 0 || (parts > 1 && sharded)) break;
      ModelRequest part = request;
      part.options.batch_size = batch / parts;
      part.options.accumulate = std::min<std::int64_t>(passes * parts, 2);  // a third batch takes what the second does
      EBB_ASSIGN_OR_RETURN(const Cost cost, CostOf(part));
      best = {measures,
              Fits(cost),
              cost.total,
              cost.safe,
              before.total - cost.total,
              (cost.pass * static_cast<double>(passes * parts) + cost.update) / plain_time_,
              adapters};
      if (parts > 1) {
        best.measures.insert(best.measures.begin(),
                             fmt::format("{} at a time, {} times before an update: "
                                         "TrainingArguments(per_device_train_batch_size={}, "
                                         "gradient_accumulation_steps={}); Lightning: accumulate_grad_batches={}",
                                         batch == parts ? "1 sample" : fmt::format("{} samples", batch / parts),
                                         passes * parts, batch / parts, passes * parts, passes * parts));
      }
      if (best.fits) break;
    }
    return best;
  }

  Status TryAll(const ModelRequest& plain, const Cost& before, AdviseResult& out) {
    std::vector<Proposal> all;
    std::vector<unsigned> fitting;  // sets that fit by themselves: what adds to them is not better
    for (unsigned set = 0; set < kSets; ++set) {
      context_.Tell({.phase = "trying measures", .share = static_cast<double>(set) / kSets, .note = {}});
      if ((set & kNf4) != 0 && (set & kLora) == 0) continue;
      const bool adds =
          std::any_of(fitting.begin(), fitting.end(), [&](unsigned less) { return (set & less) == less; });
      if (adds) continue;
      ModelRequest request = plain;
      std::vector<std::string> measures;
      bool applies = true;
      for (std::size_t i = 0; i < std::size(kMeasures); ++i) {
        if ((set >> i & 1) == 0) continue;
        applies = applies && kMeasures[i].apply(request);
        measures.push_back(kMeasures[i].text);
      }
      if (!applies) continue;
      const std::size_t alone = measures.size();
      auto tried = Try(std::move(request), before, std::move(measures), (set & kFsdp) != 0, (set & kLora) != 0);
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
