// Joins the families, and checks the sizes that a user chose against the model and against overflow.
#include "model/zoo/zoo.h"

#include <algorithm>

#include "model/update_rules.h"

namespace ebbtide::model::zoo {

const std::vector<Family>& Families() {
  static const auto* families = new std::vector<Family>{
      AlexNetAndVgg(), ResNets(), Inceptions(), DenseNets(), MobileNets(),   EfficientNets(),
      Xceptions(),     RegNets(), ConvNexts(),  UNets(),     SimpleModels(), Berts(),
      Gpts(),          GptNeos(), Opts(),       T5s(),       Llamas(),
  };
  return *families;
}

const Member* FindMember(const std::string& name) {
  for (const Family& family : Families()) {
    for (const Member& member : family.members) {
      if (member.name == name) return &member;
    }
  }
  return nullptr;
}

namespace {

// No model makes more than 2^20 bytes per place of the input (a pixel, a token, a pair of tokens), nor per class:
// within these limits no product of sizes reaches kTooLarge, and ops need not check.
constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;
constexpr std::int64_t kMostPlaces = std::int64_t{1} << 40;

Status CheckPlaces(const std::string& model, const Sizes& sizes) {
  std::int64_t places = sizes.batch;
  for (std::int64_t size : {sizes.image, sizes.image, sizes.seq_len, sizes.seq_len}) {
    if (size > 0) places = SaturatingMul(places, size);
  }
  std::int64_t scores = SaturatingMul(places, std::max<std::int64_t>(sizes.classes, 1));
  if (places <= kMostPlaces && scores <= kMostPlaces << 10) return {};
  return Fail("{}: --batch-size {}{}{}{}: expected a smaller input, of at most 2^40 places", model, sizes.batch,
              sizes.image ? fmt::format(" --image-size {}", sizes.image) : "",
              sizes.seq_len ? fmt::format(" --seq-len {}", sizes.seq_len) : "",
              sizes.classes ? fmt::format(" --classes {}", sizes.classes) : "");
}

Status Choose(const std::string& model, const char* flag, std::optional<std::int64_t> wanted, std::int64_t& size) {
  if (!wanted) return {};
  if (size == 0) return Fail("{}: {} does not apply to this model", model, flag);
  if (*wanted <= 0) return Fail("{}: {} {}: expected a positive number", model, flag, *wanted);
  if (*wanted > kLargestSize) return Fail("{}: {} {}: expected at most {}", model, flag, *wanted, kLargestSize);
  size = *wanted;
  return {};
}

Result<Sizes> SizesFor(const Member& member, const ModelOptions& options) {
  Sizes sizes = member.defaults;
  sizes.batch = 1;
  EBB_RETURN_IF_ERROR(Choose(member.name, "--batch-size", options.batch_size, sizes.batch));
  EBB_RETURN_IF_ERROR(Choose(member.name, "--image-size", options.image_size, sizes.image));
  EBB_RETURN_IF_ERROR(Choose(member.name, "--seq-len", options.seq_len, sizes.seq_len));
  EBB_RETURN_IF_ERROR(Choose(member.name, "--classes", options.classes, sizes.classes));
  if (!options.widths.empty()) {
    if (sizes.widths.empty()) return Fail("{}: --widths does not apply to this model", member.name);
    if (options.widths.size() < 2)
      return Fail("{}: --widths: expected at least an input and an output width", member.name);
    for (std::int64_t width : options.widths) {
      EBB_RETURN_IF_ERROR(Choose(member.name, "--widths", width, sizes.widths[0]));
    }
    sizes.widths = options.widths;
  }
  if (member.most_seq_len > 0 && sizes.seq_len > member.most_seq_len) {
    return Fail("{}: --seq-len {}: expected at most {}, the positions that the model knows", member.name, sizes.seq_len,
                member.most_seq_len);
  }
  EBB_RETURN_IF_ERROR(CheckPlaces(member.name, sizes));
  return sizes;
}

}  // namespace

Result<TrainingGraph> Build(const Member& member, const ModelOptions& options) {
  EBB_ASSIGN_OR_RETURN(Sizes sizes, SizesFor(member, options));
  Builder builder(member.name, options);
  TensorId loss = member.forward(builder, sizes);
  builder.graph().meta["source"] = "built in";
  return FinishStep(std::move(builder), loss, options);
}

ImageBatch ImageInput(Builder& b, const Sizes& sizes) {
  TensorId images = b.Input("images", {sizes.batch, 3, sizes.image, sizes.image});
  return {images, b.Label("labels", {sizes.batch})};
}

}  // namespace ebbtide::model::zoo
