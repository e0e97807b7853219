// BERT (Devlin et al. 2018), transformers' BertForMaskedLM.
#include "model/hf/encoders.h"
#include "model/zoo/language.h"

namespace ebbtide::model::zoo {

namespace {

Member BertMember(const std::string& name, const hf::Bert& model) {
  return {name,
          "transformers BertForMaskedLM, 512 tokens",
          {.seq_len = 512},
          [=](Builder& b, const Sizes& sizes) { return hf::RecordBert(b, model, sizes); },
          model.places};
}

}  // namespace

Family Berts() {
  return {"language",
          {BertMember("bert-base", {.layers = 12, .width = 768, .heads = 12, .hidden = 3072}),
           BertMember("bert-large", {.layers = 24, .width = 1024, .heads = 16, .hidden = 4096})}};
}

}  // namespace ebbtide::model::zoo
