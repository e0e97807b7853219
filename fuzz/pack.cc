// Pack instances: whatever the bytes are, items with addresses that ValidatePacking accepts or one line of complaint;
// also where a deadline leaves no time.
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "pack/instance_csv.h"

using namespace ebbtide;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto instance = pack::ParsePackInstance(text, "fuzz");
  if (!instance) {
    RequireOneLine(instance.error().message);
    return 0;
  }
  if (instance->items.size() > 200) return 0;
  for (const bool late : {false, true}) {
    pack::PackOptions options;
    options.evaluations = 500;
    if (late) options.deadline = Deadline::After(0);
    const pack::Packing packing = pack::Pack(instance->items, options);
    Require(packing.height >= packing.lower_bound, "no packing is below the bound");
    Require(pack::ValidatePacking(instance->items, packing.offsets, packing.height, 1).has_value(), "a valid packing");
  }
  return 0;
}
