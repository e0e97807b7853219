// The stages of the front end in their order, and the checks that sizes go together.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/json_text.h"
#include "base/nearest.h"
#include "graph/check.h"
#include "model/hf/config.h"
#include "model/hf/encoders.h"
#include "model/hf/hf.h"
#include "model/update_rules.h"

namespace ebbtide::model::hf {
namespace {

constexpr Bytes kConfigLimit = Bytes{16} << 20;
constexpr std::int64_t kDefaultLength = 512;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;
constexpr std::int64_t kLargestProduct = std::int64_t{1} << 56;
constexpr std::int64_t kMostPlaces = std::int64_t{1} << 32;

bool IsFolder(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool IsRegular(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool LooksLikeConfig(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > kConfigLimit) return false;
  const auto text = ReadFile(path, kConfigLimit);
  if (!text) return false;
  const auto says = [&](const char* key) { return text->find(fmt::format("\"{}\"", key)) != std::string::npos; };
  constexpr const char* kNames[] = {"model_type", "architectures", "_class_name", "architecture"};
  if (std::ranges::none_of(kNames, [&](const char* name) { return says(name); })) return false;
  const auto settings = Settings::Parse(*text);
  if (!settings) return says("model_type") && !says("storages");
  return settings->Has("model_type") || settings->Has("architectures[0]") || settings->Has("_class_name") ||
         settings->Has("architecture");
}

Result<std::int64_t> Chosen(const char* flag, std::optional<std::int64_t> wanted, std::int64_t usual) {
  const std::int64_t size = wanted.value_or(usual);
  if (size <= 0) return Fail("{} {}: expected a positive number", flag, size);
  if (size > kMostTokens) return Fail("{} {}: expected at most {}", flag, size, kMostTokens);
  return size;
}

// Ops multiply sizes without checking; the largest of their products is looked at here.
Status CheckProducts(const Decoder& model, std::int64_t batch, std::int64_t length) {
  const std::int64_t tokens = SaturatingMul(batch, length);
  const Experts& experts = model.experts;
  const std::int64_t rows = SaturatingMul(tokens, std::max<std::int64_t>(experts.per_token, 1));
  const std::int64_t widest =
      std::max({model.words, 3 * model.hidden, 4 * model.heads * model.head_width, model.width,
                2 * model.heads * (model.head_width + model.value_width), experts.shared_hidden});
  const std::int64_t pairs = SaturatingMul(SaturatingMul(tokens, length + 1), model.heads);
  const std::int64_t largest =
      std::max({SaturatingMul(tokens, widest), SaturatingMul(rows, std::max(2 * experts.hidden, model.width)), pairs});
  if (largest <= kLargestProduct) return {};
  return Fail("--batch-size {} --seq-len {}: expected a smaller input for a model of these sizes", batch, length);
}

// Kernels that were chosen and cannot run.
Status CheckKernels(const Decoder& model, const ModelOptions& options) {
  const bool is_narrow = *options.dtype != DType::kFloat32 || options.autocast;
  if (options.attention == AttentionKernel::kFlash) {
    if (options.device != Device::kCuda) return Fail("--attention flash: expected --device cuda, its kernels' own");
    if (!is_narrow) return Fail("--attention flash: expected weights of 16 bits (--dtype bf16) or --autocast");
    if (model.eager_only) return Fail("--attention flash: expected eager, the attention that this family trains with");
  }
  if (options.attention != AttentionKernel::kEager && model.head_width > 256 && options.device == Device::kCuda &&
      options.attention == AttentionKernel::kFlash) {
    return Fail("--attention flash: expected heads of at most 256, found {}", model.head_width);
  }
  if (options.kernels != KernelSet::kPlain && model.norm != NormKind::kRms) {
    return Fail("--kernels: expected a family with plain RMS norms and rotary positions, as llama");
  }
  if (options.loss != LossKernel::kPlain && (model.logit_cap > 0 || model.head_bias)) {
    return Fail("--loss: expected plain for a family that caps its scores or has a bias behind them");
  }
  if (options.quantize == Quantization::kGptq4 && *options.dtype == DType::kBFloat16) {
    return Fail("--quantize gptq4: expected --dtype fp16, the type of its kernels");
  }
  return {};
}

std::optional<DType> StoredType(Settings& settings) {
  std::string name;
  settings.Text({"dtype", "torch_dtype"}, name);
  if (name.starts_with("torch.")) name.erase(0, 6);
  const std::optional<DType> dtype = DTypeFromName(name);
  if (dtype == DType::kBFloat16 || dtype == DType::kFloat16) return dtype;
  return std::nullopt;
}

Result<TrainingGraph> Finish(Builder builder, TensorId loss, const char* trained_class, const ModelOptions& options) {
  builder.graph().meta["source"] = "hugging face";
  builder.graph().meta["class"] = trained_class;
  builder.graph().meta["dtype"] = Name(*options.dtype);
  if (options.quantize) {
    constexpr std::pair<Quantization, const char*> kNames[] = {{Quantization::kNf4, "nf4"},
                                                               {Quantization::kInt8, "int8"},
                                                               {Quantization::kGptq4, "gptq4"},
                                                               {Quantization::kFp8, "fp8"}};
    for (const auto& [how, name] : kNames) {
      if (how == *options.quantize) builder.graph().meta["quantize"] = name;
    }
  }
  EBB_ASSIGN_OR_RETURN(TrainingGraph graph, FinishStep(std::move(builder), loss, options));
  if (Status status = Check(graph); !status) return Within("the training graph", status.error());
  return graph;
}

// What only decoders know.
Status CheckEncoderOptions(const ModelOptions& options) {
  const auto refuse = [](const char* flag) -> Status {
    return Fail("{}: expected a decoder; encoders and encoder-decoders have no use for it", flag);
  };
  if (options.attention != AttentionKernel::kSdpa) return refuse("--attention");
  if (options.loss != LossKernel::kPlain) return refuse("--loss");
  if (options.kernels != KernelSet::kPlain) return refuse("--kernels");
  if (options.packing) return refuse("--packing");
  if (options.resize_vocab) return refuse("--resize-vocab");
  return {};
}

Result<TrainingGraph> BuildEncoder(const std::string& name, const EncoderRow& family, Settings settings,
                                   ModelOptions options) {
  EBB_RETURN_IF_ERROR(CheckEncoderOptions(options));
  EBB_ASSIGN_OR_RETURN(const EncoderModel model, family.read(settings));
  zoo::Sizes sizes;
  EBB_ASSIGN_OR_RETURN(sizes.batch, Chosen("--batch-size", options.batch_size, 1));
  if (model.usual_length == 0 && options.seq_len) return Fail("--seq-len: this model takes no tokens");
  if (options.image_size && *options.image_size != model.image) {
    return Fail("--image-size {}: expected {}, as the configuration has it", *options.image_size, model.image);
  }
  EBB_ASSIGN_OR_RETURN(sizes.seq_len,
                       Chosen("--seq-len", options.seq_len, std::max<std::int64_t>(model.usual_length, 1)));
  if (model.most_length > 0 && sizes.seq_len > model.most_length) {
    return Fail("--seq-len {}: expected at most {}, the positions that the model knows", sizes.seq_len,
                model.most_length);
  }
  const std::int64_t places = SaturatingMul(sizes.batch, SaturatingMul(sizes.seq_len, sizes.seq_len));
  if (places > kMostPlaces || SaturatingMul(sizes.batch, model.image * model.image) > kMostPlaces) {
    return Fail("--batch-size {} --seq-len {}: expected a smaller input", sizes.batch, sizes.seq_len);
  }
  if (!options.dtype) options.dtype = StoredType(settings).value_or(DType::kFloat32);
  Builder builder(name, options);
  const TensorId loss = model.record(builder, sizes);
  return Finish(std::move(builder), loss, family.trained_class, options);
}

Result<TrainingGraph> Build(const std::string& name, Settings settings, ModelOptions options) {
  std::string type;
  settings.Text({"model_type"}, type);
  if (settings.error()) return tl::unexpected<Error>(*settings.error());
  if (const EncoderRow* encoder = FindEncoderFamily(type)) return BuildEncoder(name, *encoder, settings, options);
  const FamilyRow* family = FindDecoderFamily(type);
  if (family == nullptr) {
    std::vector<std::string> names;
    for (const FamilyRow& row : DecoderFamilies()) names.push_back(row.model_type);
    for (const EncoderRow& row : EncoderFamilies()) names.push_back(row.model_type);
    return Fail("model_type: {} is none of the families that are read without Python{}", Quoted(type),
                DidYouMean(type, names));
  }
  EBB_ASSIGN_OR_RETURN(Decoder model, ReadDecoder(*family, settings));
  EBB_ASSIGN_OR_RETURN(const std::int64_t batch, Chosen("--batch-size", options.batch_size, 1));
  EBB_ASSIGN_OR_RETURN(const std::int64_t length, Chosen("--seq-len", options.seq_len, kDefaultLength));
  if (model.places > 0 && length > model.places) {
    return Fail("--seq-len {}: expected at most {}, the positions that the model knows", length, model.places);
  }
  if (options.resize_vocab) {
    if (*options.resize_vocab > kMostWords) {
      return Fail("--resize-vocab {}: expected at most {}", *options.resize_vocab, kMostWords);
    }
    model.words = *options.resize_vocab;
  }
  EBB_RETURN_IF_ERROR(CheckProducts(model, batch, length));
  if (!options.dtype) options.dtype = StoredType(settings).value_or(DType::kFloat32);
  EBB_RETURN_IF_ERROR(CheckKernels(model, options));
  Builder builder(name, options);
  // fms-acceleration's kernels have it for families of their own.
  if (options.loss == LossKernel::kFused && options.kernels != KernelSet::kFoak &&
      !LigerHasFusedLoss(family->model_type)) {
    builder.graph().meta["assumed"] =
        fmt::format("--loss fused as for llama: liger-kernel has none for {}", family->model_type);
  }
  const TensorId loss = RecordDecoder(builder, model, batch, length);
  return Finish(std::move(builder), loss, family->trained_class, options);
}

std::string NameOf(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string name =
      (file.filename() == "config.json" && file.has_parent_path() ? file.parent_path().filename() : file.stem())
          .string();
  return !name.empty() && IsUtf8(name) ? name : "model";
}

}  // namespace

std::string ConfigPath(const std::string& model) {
  if (IsFolder(model)) {
    const std::string inside = (std::filesystem::path(model) / "config.json").string();
    return IsRegular(inside) ? inside : "";
  }
  return model.ends_with(".json") && LooksLikeConfig(model) ? model : "";
}

bool IsReadHere(const std::string& config_path) {
  const auto text = ReadFile(config_path, kConfigLimit);
  if (!text) return true;
  auto settings = Settings::Parse(*text);
  if (!settings) return true;  // its complaint is the answer
  std::string type;
  settings->Text({"model_type"}, type);
  if (settings->error()) return true;
  const FamilyRow* decoder = FindDecoderFamily(type);
  const EncoderRow* encoder = FindEncoderFamily(type);
  if (decoder == nullptr && encoder == nullptr) return false;
  // With another head it is another model.
  std::string architecture = decoder != nullptr ? decoder->trained_class : encoder->trained_class;
  settings->Text({"architectures[0]"}, architecture);
  return architecture == (decoder != nullptr ? decoder->trained_class : encoder->trained_class);
}

namespace {

// Null: none of ours.
const FamilyRow* FamilyOf(const std::string& config_path) {
  const auto text = ReadFile(config_path, kConfigLimit);
  if (!text) return nullptr;
  auto settings = Settings::Parse(*text);
  if (!settings) return nullptr;
  std::string type;
  settings->Text({"model_type"}, type);
  return FindDecoderFamily(type);
}

}  // namespace

bool HasExperts(const std::string& config_path) {
  const FamilyRow* family = FamilyOf(config_path);
  return family != nullptr && family->decoder.experts.count > 0;
}

bool HasFusedLoss(const std::string& config_path) {
  const FamilyRow* family = FamilyOf(config_path);
  return family != nullptr && LigerHasFusedLoss(family->model_type);
}

Result<TrainingGraph> ParseModel(const std::string& name, std::string_view content, const ModelOptions& options) {
  const auto place = [&](const Error& error) { return Within(name, error); };
  auto settings = Settings::Parse(content);
  if (!settings) return place(settings.error());
  auto graph = Build(NameOf(name), *std::move(settings), options);
  if (!graph) return place(graph.error());
  return graph;
}

Result<TrainingGraph> ReadModel(const std::string& path, const ModelOptions& options) {
  const std::string config = ConfigPath(path);
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadFile(config.empty() ? path : config, kConfigLimit));
  return ParseModel(config.empty() ? path : config, text, options);
}

}  // namespace ebbtide::model::hf
