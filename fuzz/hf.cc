// Configurations of Hugging Face: whatever the bytes are, a graph that passes Check or one line of complaint.
#include "model/hf/hf.h"

#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "graph/check.h"
#include "graph/summary.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebbtide;
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  model::ModelOptions options;
  options.batch_size = 2;
  options.seq_len = 8;
  options.device = size % 2 == 0 ? model::Device::kCpu : model::Device::kCuda;
  if (size % 3 == 0) options.lora = 4;
  if (size % 5 == 0) options.checkpoint = "";
  if (size % 15 == 0) options.quantize = model::Quantization::kNf4;
  const auto graph = model::hf::ParseModel("fuzz.json", content, options);
  if (!graph) {
    const std::string& message = graph.error().message;
    RequireOneLine(message, "fuzz.json", 2000);
    Require(!message.starts_with("fuzz.json: the training graph: "), "what is built passes Check");
    return 0;
  }
  Require(Check(*graph).has_value(), "what is built passes Check");
  Require(Summarize(*graph).parameters > 0, "something is trained");
  return 0;
}
