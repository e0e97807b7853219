// How fast jobs are that share a GPU, in the mean.   ◀ the model: docs/cluster.md
//
// The model of src/share (docs/share.md), without its single ops: a job launches kernels or has one on the GPU, where
// it keeps a share of it busy. Shares add up to at most one; where they would exceed it, all that run slow down alike.
// Each job finds the kernels of the others on the GPU as often as they are there in the mean, whenever it comes.
#pragma once

#include <span>
#include <vector>

namespace ebbtide::cluster {

struct GpuUser {
  double kernels = 1;    // of its time alone, the part in which a kernel of it is on the GPU
  double gpu_share = 1;  // of the GPU that they keep busy, while they run
};

// Jobs that one GPU runs at once, at most; so many the sums below can be made for.
inline constexpr std::size_t kMostOnGpu = 16;

// The speed of each beside its speed alone, 0 to 1. One alone has 1.
std::vector<double> Rates(std::span<const GpuUser> users);

// The part of the GPU that is in use at these speeds, 0 to 1.
double BusyShare(std::span<const GpuUser> users, std::span<const double> rates);

}  // namespace ebbtide::cluster
