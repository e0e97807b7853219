#include "report/fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/table.h"
#include "report/text.h"

namespace ebbtide::report {

const FitOnGpu* Fit::smallest() const {
  if (!batch) return nullptr;
  const auto found = std::find_if(gpus.begin(), gpus.end(), [](const FitOnGpu& gpu) { return gpu.fits_batch; });
  return found == gpus.end() ? nullptr : &*found;
}

Json FitJson(const Fit& fit) {
  Json result = NewResult("fit");
  result["model"] = fit.model;
  result["batch_size"] = nullptr;
  if (fit.batch) result["batch_size"] = *fit.batch;
  result["smallest_gpu"] = nullptr;
  if (const FitOnGpu* smallest = fit.smallest()) result["smallest_gpu"] = smallest->gpu;
  result["gpus"] = Json::array();
  for (const FitOnGpu& gpu : fit.gpus) {
    Json row = {{"gpu", gpu.gpu}, {"memory_bytes", gpu.memory}, {"max_batch", gpu.max_batch}};
    row["max_batch_with_plan"] = nullptr;
    row["fits"] = nullptr;
    if (fit.batch) row["fits"] = gpu.fits_batch;
    result["gpus"].push_back(std::move(row));
  }
  return result;
}

std::string FitText(const Fit& fit, const Terminal& terminal) {
  std::string out =
      Paint(Style::kBold, Shorten(Printable(fit.model), terminal.width, terminal.unicode), terminal) + "\n\n";
  if (fit.batch) {
    const FitOnGpu* smallest = fit.smallest();
    out += fmt::format(
        "batch size {}: {}\n\n", WithSeparators(*fit.batch),
        smallest == nullptr ? "fits none of these" : "the smallest GPU that takes it is " + Printable(smallest->gpu));
  }
  Table table({{.title = "gpu", .shrinks = true},
               {.title = "memory", .align = Align::kRight},
               {.title = "largest batch", .align = Align::kRight}});
  for (const FitOnGpu& gpu : fit.gpus) {
    table.Add({gpu.gpu, FormatBytes(gpu.memory), gpu.max_batch == 0 ? "none" : WithSeparators(gpu.max_batch)});
  }
  return out + table.Render(terminal);
}

}  // namespace ebbtide::report
