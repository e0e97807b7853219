// CUDA contexts: the primary one of each GPU, which the runtime makes when it first needs it, and those that a program
// makes. Each takes the profile's context bytes from its GPU while it lives.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/units.h"
#include "phantom/core/code.h"
#include "phantom/core/ledger.h"

namespace ebbtide::phantom {

struct Context {
  bool is_primary = false;
  unsigned flags = 0;
  std::uint64_t id = 0;
  int gpu = 0;
};

// The GPU of the calling thread's context; the first one where it has none.
int CurrentGpu();

// Thread-safe; the current context is one per thread.
class Contexts {
 public:
  // `ledgers`: one for each GPU.
  Contexts(std::vector<Ledger*> ledgers, Bytes bytes);

  // cuInit, or the first call of the runtime that needs a context.
  void Initialize() { initialized_.store(true, std::memory_order_release); }
  bool initialized() const { return initialized_.load(std::memory_order_acquire); }

  Code RetainPrimary(int gpu);
  Code ReleasePrimary(int gpu);
  void ResetPrimary(int gpu);
  bool PrimaryIsActive(int gpu, unsigned& flags) const;
  Code SetPrimaryFlags(int gpu, unsigned flags);
  Context* primary(int gpu) { return &primaries_[static_cast<std::size_t>(gpu)].context; }

  Code Create(int gpu, unsigned flags, Context*& out);
  Code Destroy(Context* context);
  bool IsLive(const Context* context) const;

  // The context of the calling thread; null where it has none.
  Context* Current() const;
  void SetCurrent(Context* context);
  void Push(Context* context);
  Code Pop(Context*& out);

  // What a call of the runtime that needs the device begins with: the thread has a context, the primary if none other.
  Code Use();
  // cudaSetDevice: the primary context of the GPU, made if need be, becomes the thread's.
  Code UseGpu(int gpu);
  // The primary context of the GPU is made, and the thread keeps its own.
  Code MakePrimary(int gpu);

  Bytes bytes() const { return taken_; }  // by all contexts that live
  Bytes bytes_of_one() const { return bytes_; }

 private:
  struct Primary {
    Context context;
    int references = 0;
    bool used_by_runtime = false;
  };

  Code TakeMemory(int gpu);
  void GiveMemory(int gpu);

  const std::vector<Ledger*> ledgers_;
  const Bytes bytes_;
  std::atomic<bool> initialized_{false};
  mutable std::mutex mutex_;
  std::atomic<Bytes> taken_{0};
  std::vector<Primary> primaries_;
  std::map<const Context*, std::unique_ptr<Context>> made_;
  std::uint64_t next_id_ = 2;
};

}  // namespace ebbtide::phantom
