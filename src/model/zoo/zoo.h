// The built-in models. Each file of this folder defines one family and lists its members in a table; zoo.cc joins them.
// A member is a function that records the forward pass in a Builder and returns the loss.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/builder.h"
#include "model/model.h"

namespace ebbtide::model::zoo {

// A model's inputs, with the defaults of the model where the user said nothing.
struct Sizes {
  std::int64_t batch = 0;
  std::int64_t image = 0;
  std::int64_t seq_len = 0;
  std::int64_t classes = 0;
  std::vector<std::int64_t> widths = {};
};

struct Member {
  std::string name;
  std::string description;
  Sizes defaults;  // 0: the model has no such size, and the user may not set it
  std::function<TensorId(Builder&, const Sizes&)> forward;
  std::int64_t most_seq_len = 0;  // rows of its position embedding; 0: it takes sequences of any length
};

struct Family {
  std::string name;
  std::vector<Member> members;
};

// ---- One function per file.
Family AlexNetAndVgg();
Family ResNets();
Family Inceptions();
Family DenseNets();
Family MobileNets();  // mobilenet, mnasnet
Family EfficientNets();
Family Xceptions();
Family RegNets();
Family ConvNexts();
Family UNets();
Family SimpleModels();  // mlp, lstm
Family Berts();
Family Gpts();  // gpt2, cerebras-gpt
Family GptNeos();
Family Opts();
Family T5s();
Family Llamas();  // llama, qwen, gemma, deepseek

const std::vector<Family>& Families();

// nullptr if there is none.
const Member* FindMember(const std::string& name);

// Forward, backward and update of the built-in model.
Result<TrainingGraph> Build(const Member& member, const ModelOptions& options);

// Images and their classes, as every classifier of the zoo takes them.
struct ImageBatch {
  TensorId images, labels;
};
ImageBatch ImageInput(Builder& b, const Sizes& sizes);

}  // namespace ebbtide::model::zoo
