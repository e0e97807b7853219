// How the settings of encoders and encoder-decoders become their sizes.
#include "model/hf/encoders.h"

#include "base/json_text.h"
#include "model/hf/config.h"
#include "model/hf/parts.h"

namespace ebbtide::model::hf {
namespace {

constexpr std::int64_t kUsualLength = 512, kUsualPairs = 128, kMostImage = 1 << 14;

void Divides(Settings& in, const char* what, std::int64_t whole, std::int64_t parts) {
  if (whole % parts != 0) in.Complain(fmt::format("{}: expected a divisor of {}, found {}", what, whole, parts));
}

void KnowsActivation(Settings& in, const std::string& name) {
  if (!IsActivation(name)) in.Complain(fmt::format("{} is not an activation that this reader knows", Quoted(name)));
}

Result<EncoderModel> Done(const Settings& in, EncoderModel model) {
  if (in.error()) return tl::unexpected<Error>(*in.error());
  return model;
}

template <bool kIsRoberta>
Result<EncoderModel> ReadBert(Settings in) {
  Bert model;
  model.is_roberta = kIsRoberta;
  if (kIsRoberta) model.words = 50265;
  in.Integer({"num_hidden_layers"}, model.layers, 1, kMostLayers);
  in.Integer({"hidden_size"}, model.width, 1, kMostWidth);
  in.Integer({"num_attention_heads"}, model.heads, 1, kMostHeads);
  in.Integer({"intermediate_size"}, model.hidden, 1, kMostHidden);
  in.Integer({"vocab_size"}, model.words, 1, kMostWords);
  in.Integer({"max_position_embeddings"}, model.places, 1, kMostWords);
  in.Integer({"type_vocab_size"}, model.types, 1, kMostWords);
  in.Share({"hidden_dropout_prob"}, model.dropout);
  in.Share({"attention_probs_dropout_prob"}, model.attention_dropout);
  in.Text({"hidden_act"}, model.activation);
  Divides(in, "num_attention_heads", model.width, model.heads);
  KnowsActivation(in, model.activation);
  const std::int64_t most = kIsRoberta ? std::max<std::int64_t>(model.places - 2, 1) : model.places;
  const auto record = [model](Builder& b, const zoo::Sizes& sizes) { return RecordBert(b, model, sizes); };
  return Done(in, {record, std::min(kUsualLength, most), most, 0});
}

Result<EncoderModel> ReadT5(Settings in) {
  T5 model;
  in.Integer({"num_layers"}, model.layers, 1, kMostLayers);
  model.decoder_layers = model.layers;
  in.Integer({"num_decoder_layers"}, model.decoder_layers, 1, kMostLayers);
  in.Integer({"d_model"}, model.width, 1, kMostWidth);
  in.Integer({"d_ff"}, model.hidden, 1, kMostHidden);
  in.Integer({"num_heads"}, model.heads, 1, kMostHeads);
  in.Integer({"d_kv"}, model.head_width, 1, kMostWidth);
  in.Integer({"vocab_size"}, model.words, 1, kMostWords);
  in.Integer({"relative_attention_num_buckets"}, model.buckets, 4, kMostWords);
  in.Number({"relative_attention_max_distance"}, model.farthest);
  in.Share({"dropout_rate"}, model.dropout);
  in.Bool({"tie_word_embeddings"}, model.scaled);  // tied they are in any case
  std::string form = "relu";
  in.Text({"feed_forward_proj"}, form);
  model.gated = form.starts_with("gated-");
  model.activation = form == "gated-gelu" ? "gelu_new" : model.gated ? form.substr(6) : form;
  KnowsActivation(in, model.activation);
  if (model.heads * model.head_width > kMostHidden) in.Complain("d_kv: expected narrower heads");
  const auto record = [model](Builder& b, const zoo::Sizes& sizes) { return RecordT5(b, model, sizes); };
  return Done(in, {record, kUsualPairs, 0, 0});
}

Result<EncoderModel> ReadWhisper(Settings in) {
  Whisper model;
  in.Integer({"encoder_layers"}, model.encoder_layers, 1, kMostLayers);
  in.Integer({"decoder_layers"}, model.decoder_layers, 1, kMostLayers);
  in.Integer({"d_model"}, model.width, 1, kMostWidth);
  in.Integer({"encoder_attention_heads"}, model.encoder_heads, 1, kMostHeads);
  in.Integer({"decoder_attention_heads"}, model.decoder_heads, 1, kMostHeads);
  in.Integer({"encoder_ffn_dim"}, model.encoder_hidden, 1, kMostHidden);
  in.Integer({"decoder_ffn_dim"}, model.decoder_hidden, 1, kMostHidden);
  in.Integer({"vocab_size"}, model.words, 1, kMostWords);
  in.Integer({"num_mel_bins"}, model.mels, 1, kMostWidth);
  in.Integer({"max_source_positions"}, model.sources, 1, 1 << 16);
  in.Integer({"max_target_positions"}, model.targets, 1, 1 << 16);
  in.Share({"dropout"}, model.dropout);
  in.Share({"attention_dropout"}, model.attention_dropout);
  in.Share({"activation_dropout"}, model.activation_dropout);
  in.Text({"activation_function"}, model.activation);
  Divides(in, "encoder_attention_heads", model.width, model.encoder_heads);
  Divides(in, "decoder_attention_heads", model.width, model.decoder_heads);
  KnowsActivation(in, model.activation);
  const auto record = [model](Builder& b, const zoo::Sizes& sizes) { return RecordWhisper(b, model, sizes); };
  return Done(in, {record, std::min(kUsualPairs, model.targets), model.targets, 0});
}

void ReadTower(Settings& in, Tower& tower) {
  in.Integer({"num_hidden_layers"}, tower.layers, 1, kMostLayers);
  in.Integer({"hidden_size"}, tower.width, 1, kMostWidth);
  in.Integer({"num_attention_heads"}, tower.heads, 1, kMostHeads);
  in.Integer({"intermediate_size"}, tower.hidden, 1, kMostHidden);
  in.Integer({"image_size"}, tower.image, 1, kMostImage);
  in.Integer({"patch_size"}, tower.patch, 1, kMostImage);
  in.Integer({"num_channels"}, tower.channels, 1, kMostWidth);
  in.Integer({"vocab_size"}, tower.words, 1, kMostWords);
  in.Integer({"max_position_embeddings"}, tower.places, 1, kMostWords);
  in.Share({"hidden_dropout_prob"}, tower.dropout);
  in.Share({"attention_probs_dropout_prob", "attention_dropout"}, tower.attention_dropout);
  in.Text({"hidden_act"}, tower.activation);
  in.Bool({"qkv_bias"}, tower.qkv_bias);
  Divides(in, "num_attention_heads", tower.width, tower.heads);
  KnowsActivation(in, tower.activation);
  if (tower.patch > tower.image) in.Complain("patch_size: expected a patch no larger than image_size");
}

Result<EncoderModel> ReadVit(Settings in) {
  Vit model;
  ReadTower(in, model.tower);
  model.classes = std::max<std::int64_t>(in.CountIn("id2label"), 2);
  in.Integer({"num_labels"}, model.classes, 1, kMostWords);
  const auto record = [model](Builder& b, const zoo::Sizes& sizes) { return RecordVit(b, model, sizes); };
  return Done(in, {record, 0, 0, model.tower.image});
}

Result<EncoderModel> ReadClip(Settings in) {
  Clip model;
  model.text = {.layers = 12, .width = 512, .heads = 8, .hidden = 2048, .activation = "quick_gelu"};
  model.vision = {.layers = 12, .width = 768, .heads = 12, .hidden = 3072, .patch = 32, .activation = "quick_gelu"};
  in.Integer({"projection_dim"}, model.projection, 1, kMostWidth);
  Settings text = in.Inside("text_config"), vision = in.Inside("vision_config");
  ReadTower(text, model.text);
  ReadTower(vision, model.vision);
  for (const Settings* each : {&text, &vision}) {
    if (each->error()) return tl::unexpected<Error>(*each->error());
  }
  const auto record = [model](Builder& b, const zoo::Sizes& sizes) { return RecordClip(b, model, sizes); };
  return Done(in, {record, std::min(kUsualLength, model.text.places), model.text.places, model.vision.image});
}

}  // namespace

const std::vector<EncoderRow>& EncoderFamilies() {
  static const auto* rows = new std::vector<EncoderRow>{
      {"bert", "BertForMaskedLM", ReadBert<false>},  {"roberta", "RobertaForMaskedLM", ReadBert<true>},
      {"t5", "T5ForConditionalGeneration", ReadT5},  {"whisper", "WhisperForConditionalGeneration", ReadWhisper},
      {"vit", "ViTForImageClassification", ReadVit}, {"clip", "CLIPModel", ReadClip},
  };
  return *rows;
}

const EncoderRow* FindEncoderFamily(const std::string& model_type) {
  for (const EncoderRow& row : EncoderFamilies()) {
    if (row.model_type == model_type) return &row;
  }
  return nullptr;
}

}  // namespace ebbtide::model::hf
