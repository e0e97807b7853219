// T5 (Raffel et al. 2020), transformers' T5ForConditionalGeneration: encoder and decoder see as many tokens each.
#include "model/hf/encoders.h"
#include "model/zoo/language.h"

namespace ebbtide::model::zoo {

namespace {

Member T5Member(const std::string& name, const hf::T5& model) {
  return {name,
          "transformers T5ForConditionalGeneration, 128 tokens in and out",
          {.seq_len = 128},
          [=](Builder& b, const Sizes& sizes) { return hf::RecordT5(b, model, sizes); }};
}

}  // namespace

Family T5s() {
  return {"language",
          {T5Member("t5-small", {.layers = 6, .decoder_layers = 6, .width = 512, .hidden = 2048, .heads = 8}),
           T5Member("t5-base", {.layers = 12, .decoder_layers = 12, .width = 768, .hidden = 3072, .heads = 12})}};
}

}  // namespace ebbtide::model::zoo
