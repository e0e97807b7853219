// CUDA contexts: the primary one, which the runtime makes when it first needs it, and those that a program makes. Each
// takes the profile's context bytes from the device while it lives.
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
};

// Thread-safe; the current context is one per thread.
class Contexts {
 public:
  Contexts(Ledger& ledger, Bytes bytes) : ledger_(ledger), bytes_(bytes) { primary_.is_primary = true; }

  // cuInit, or the first call of the runtime that needs a context.
  void Initialize() { initialized_.store(true, std::memory_order_release); }
  bool initialized() const { return initialized_.load(std::memory_order_acquire); }

  Code RetainPrimary();
  Code ReleasePrimary();
  void ResetPrimary();
  bool PrimaryIsActive(unsigned& flags) const;
  Code SetPrimaryFlags(unsigned flags);
  Context* primary() { return &primary_; }

  Code Create(unsigned flags, Context*& out);
  Code Destroy(Context* context);
  bool IsLive(const Context* context) const;

  // The context of the calling thread; null where it has none.
  Context* Current() const;
  void SetCurrent(Context* context);
  void Push(Context* context);
  Code Pop(Context*& out);

  // What a call of the runtime that needs the device begins with: the thread has a context, the primary if none other.
  Code Use();

  Bytes bytes() const { return taken_; }  // by all contexts that live
  Bytes bytes_of_one() const { return bytes_; }

 private:
  Code TakeMemory();
  void GiveMemory();

  Ledger& ledger_;
  const Bytes bytes_;
  std::atomic<bool> initialized_{false};
  mutable std::mutex mutex_;
  std::atomic<Bytes> taken_{0};
  Context primary_;
  int primary_references_ = 0;
  bool used_by_runtime_ = false;
  std::map<const Context*, std::unique_ptr<Context>> made_;
  std::uint64_t next_id_ = 2;
};

}  // namespace ebbtide::phantom
