// Runs ops through a library of kernels (kernels_abi.h), and moves the user's state into the pool and out of it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/id_vector.h"
#include "base/result.h"
#include "graph/graph.h"
#include "run/device/device.h"
#include "run/engine/kernels_abi.h"
#include "run/engine/op_runner.h"

namespace ebbtide::run {

// The library stays loaded for the life of the process.
Result<const EbbtideKernels*> LoadKernels(const std::string& path);

class Kernels final : public OpRunner {
 public:
  // Every op of the graph has a schema. `device`: as torch calls it.
  static Result<std::unique_ptr<Kernels>> Make(const EbbtideKernels* library, const TrainingGraph& graph,
                                               const std::string& device = "cpu");
  ~Kernels() override;
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  RunStatus Run(OpId op, std::span<const double> scalars, OpMemory& memory, std::vector<Made>& made) override;
  void Bind(StorageId storage, std::byte* at) override;
  std::size_t RandomBytes() override { return library_->random_bytes(program_); }
  void SaveRandom(std::byte* to) override { library_->random_save(program_, to); }
  void LoadRandom(const std::byte* from) override { library_->random_load(program_, from); }

  // See kernels_abi.h. The stream that ops run on becomes the device's.
  Status Ready(Device& device);
  Status Attach(StorageId storage, void* storage_impl);
  void Pretend(OpId op) { library_->pretend(program_, op.value); }

  // Moves what was attached to its home (address by storage; -1: not state) in the device's pool, unless it is there.
  // The pool's memory stays until nobody's state is in it. Returns how many storages were moved.
  Result<int> MoveIn(const std::shared_ptr<Device>& device, const IdVector<StorageId, Bytes>& home);
  // Moves what is in the device's pool back into memory of torch's own.
  Status MoveOut(Device& device, const IdVector<StorageId, Bytes>& home);

 private:
  Kernels(const EbbtideKernels* library, EbbtideKernelsProgram* program, const TrainingGraph& graph);

  const EbbtideKernels* const library_;
  EbbtideKernelsProgram* const program_;
  IdVector<StorageId, bool> attached_;
  std::shared_ptr<Device> device_;  // whose pool state was moved into
  std::vector<EbbtideMade> made_;
};

}  // namespace ebbtide::run
