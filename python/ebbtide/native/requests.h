// What Python says of a MODEL, a GPU and a budget, as parts of Requests.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

#include "jobs/budget.h"
#include "jobs/model.h"
#include "values.h"

namespace ebbtide::core {

// `model`: a Graph, or what the command line takes as a MODEL. `options`: those of `ebbtide inspect`, by their names in
// Python ("batch_size"); with a Graph there are none. `others`: captures of the same step at other batches. Kernels are
// CUDA's unless options say otherwise.
jobs::ModelRequest ModelOf(const nanobind::object& model, const nanobind::dict& options,
                           const std::vector<Graph>& others = {});

// A Profile, a name, or the path of a profile.
DeviceProfile GpuOf(const nanobind::object& gpu);

// Bytes, "4GiB" or "60%"; None: what the GPU has.
jobs::Budget BudgetOf(const nanobind::object& budget);

// Bytes per second, or "12GB/s"; None: 0, which stands for the GPU's own.
double BandwidthOf(const nanobind::object& link);

// Bytes, or "4GiB"; `name` opens the message where it is neither.
Bytes BytesOf(const nanobind::object& size, const std::string& name);

}  // namespace ebbtide::core
