// The table of CARMA's workloads. Its images are those of ImageNet-1k, CIFAR-100 and MNIST, whose sizes are known; of
// its texts nobody says how many sequences they make.
#include "cluster/carma_models.h"

namespace ebbtide::cluster {
namespace {

constexpr std::int64_t kImageNet = 1'281'167, kCifar = 50'000, kMnist = 60'000;
constexpr const char* kInception = "inception_v3 with its auxiliary classifier, which the trace's has not";
constexpr const char* kTimm = "torchvision's efficientnet_b0 and mobilenet_v3_small for timm's";
constexpr const char* kDigits = "resnet18 on 32x32 images, batch 64, for the small CNN on MNIST, which takes less";
constexpr const char* kXlnet =
    "XLNet, of which there is no model here, takes what CARMA's authors measured, and keeps its GPU busy";

constexpr CarmaModel kModels[] = {
    {.words = "torchvision inception_v3 without auxiliary outputs",
     .input = "3x299x299",
     .model = "inception_v3",
     .samples = kImageNet,
     .note = kInception},
    {.words = "torchvision vgg16", .input = "3x224x224", .model = "vgg16", .samples = kImageNet},
    {.words = "torchvision resnet50", .input = "3x224x224", .model = "resnet50", .samples = kImageNet},
    {.words = "torchvision efficientnet_b0", .input = "3x224x224", .model = "efficientnet_b0", .samples = kImageNet},
    {.words = "torchvision mobilenet_v2", .input = "3x224x224", .model = "mobilenet_v2", .samples = kImageNet},
    {.words = "timm xception", .input = "3x224x224", .model = "xception", .samples = kImageNet, .image_size = 224},
    {.words = "timm resnet18, 100 classes",
     .input = "3x32x32",
     .model = "resnet18",
     .samples = kCifar,
     .image_size = 32,
     .classes = 100},
    {.words = "timm resnet34, 100 classes",
     .input = "3x32x32",
     .model = "resnet34",
     .samples = kCifar,
     .image_size = 32,
     .classes = 100},
    {.words = "timm mobilenetv3_small_100, 100 classes",
     .input = "3x32x32",
     .model = "mobilenet_v3_small",
     .samples = kCifar,
     .image_size = 32,
     .classes = 100,
     .note = kTimm},
    {.words = "timm efficientnet_b0, 100 classes",
     .input = "3x32x32",
     .model = "efficientnet_b0",
     .samples = kCifar,
     .image_size = 32,
     .classes = 100,
     .note = kTimm},
    {.words = "small CNN on MNIST (the pytorch/examples one)",
     .input = "1x28x28",
     .model = "resnet18",
     .samples = kMnist,
     .image_size = 32,
     .classes = 10,
     .batch = 64,
     .optimizer = "adam",
     .note = kDigits},
    {.words = "transformers BertForMaskedLM 12x768, vocabulary 28996",
     .input = "512 tokens",
     .model = "bert-base",
     .samples = 0,
     .seq_len = 512},
    {.words = "transformers BertForMaskedLM 24x1024, vocabulary 28996",
     .input = "512 tokens",
     .model = "bert-large",
     .samples = 0,
     .seq_len = 512},
    {.words = "transformers GPT2LMHeadModel large",
     .input = "512 tokens",
     .model = "gpt2-large",
     .samples = 0,
     .seq_len = 512},
    {.words = "transformers XLNetForSequenceClassification base",
     .input = "up to 512",
     .model = "",
     .samples = 0,
     .memory = 9192 * kMiB,
     .note = kXlnet},
    {.words = "transformers XLNetForSequenceClassification large",
     .input = "up to 512",
     .model = "",
     .samples = 0,
     .memory = 19330 * kMiB,
     .note = kXlnet},
};

}  // namespace

const CarmaModel* FindCarmaModel(std::string_view words, std::string_view input) {
  for (const CarmaModel& row : kModels) {
    if (row.words == words && input.starts_with(row.input)) return &row;
  }
  return nullptr;
}

}  // namespace ebbtide::cluster
