// The families that are no decoders alone: BERT and RoBERTa, T5, Whisper, ViT and CLIP. Each has a struct of its sizes,
// a function that records its training step, and a row in the table of how it is read.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/builder.h"
#include "model/hf/settings.h"
#include "model/zoo/zoo.h"

namespace ebbtide::model::hf {

struct Bert {
  std::int64_t layers = 12, width = 768, heads = 12, hidden = 3072;
  std::int64_t words = 30522, places = 512, types = 2;
  double dropout = 0.1, attention_dropout = 0.1;
  std::string activation = "gelu";
  bool is_roberta = false;  // counts places from the tokens, and names its head otherwise
};
TensorId RecordBert(Builder& builder, const Bert& model, const zoo::Sizes& sizes);

struct T5 {
  std::int64_t layers = 6, decoder_layers = 6, width = 512, hidden = 2048, heads = 8, head_width = 64, words = 32128;
  std::int64_t buckets = 32;
  double farthest = 128;  // distances beyond share a bucket
  double dropout = 0.1;
  std::string activation = "relu";
  bool gated = false;  // act(wi_0 x) * wi_1 x
  bool scaled = true;  // what the decoder gives is scaled before it meets the words' embedding
};
TensorId RecordT5(Builder& builder, const T5& model, const zoo::Sizes& sizes);

struct Whisper {
  std::int64_t encoder_layers = 4, decoder_layers = 4, width = 384, encoder_heads = 6, decoder_heads = 6;
  std::int64_t encoder_hidden = 1536, decoder_hidden = 1536, words = 51865, mels = 80, sources = 1500, targets = 448;
  double dropout = 0, attention_dropout = 0, activation_dropout = 0;
  std::string activation = "gelu";
};
TensorId RecordWhisper(Builder& builder, const Whisper& model, const zoo::Sizes& sizes);

// A transformer over patches or words, with a norm before each part.
struct Tower {
  std::int64_t layers = 12, width = 768, heads = 12, hidden = 3072;
  std::int64_t image = 224, patch = 16, channels = 3;  // of pictures
  std::int64_t words = 49408, places = 77;             // of text
  double dropout = 0, attention_dropout = 0;
  std::string activation = "gelu";
  bool qkv_bias = true;
};
struct Vit {
  Tower tower;
  std::int64_t classes = 2;
};
TensorId RecordVit(Builder& builder, const Vit& model, const zoo::Sizes& sizes);

struct Clip {
  Tower text, vision;
  std::int64_t projection = 512;
};
TensorId RecordClip(Builder& builder, const Clip& model, const zoo::Sizes& sizes);

// How a model that is no decoder is made of settings.
struct EncoderModel {
  std::function<TensorId(Builder&, const zoo::Sizes&)> record;
  std::int64_t usual_length = 0;  // tokens, where the user said nothing; 0: it takes none
  std::int64_t most_length = 0;   // 0: any
  std::int64_t image = 0;         // pixels, which are fixed; 0: it takes no pictures
};
struct EncoderRow {
  const char* model_type;
  const char* trained_class;
  Result<EncoderModel> (*read)(Settings settings);
};
const std::vector<EncoderRow>& EncoderFamilies();
const EncoderRow* FindEncoderFamily(const std::string& model_type);

}  // namespace ebbtide::model::hf
