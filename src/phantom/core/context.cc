// Contexts and the stack of them that each thread has.
#include "phantom/core/context.h"

#include "phantom/core/begin.h"

namespace ebbtide::phantom {
namespace {

// Has no destructor: calls come after those of the thread's objects have run.
class ContextStack {
 public:
  bool empty() const { return size_ == 0; }
  Context* back() const { return contexts_[size_ - 1]; }
  void clear() { size_ = 0; }
  void pop_back() { --size_; }
  bool push_back(Context* context) {
    if (size_ == kDeepest) return false;
    contexts_[size_++] = context;
    return true;
  }

 private:
  static constexpr std::size_t kDeepest = 1024;
  Context* contexts_[kDeepest];
  std::size_t size_;
};

ContextStack& Stack() {
  thread_local constinit ContextStack stack{};
  return stack;
}

}  // namespace

int CurrentGpu() { return Stack().empty() ? 0 : Stack().back()->gpu; }

Contexts::Contexts(std::vector<Ledger*> ledgers, Bytes bytes)
    : ledgers_(std::move(ledgers)), bytes_(bytes), primaries_(ledgers_.size()) {
  for (std::size_t gpu = 0; gpu < primaries_.size(); ++gpu)
    primaries_[gpu].context = {.is_primary = true, .gpu = static_cast<int>(gpu)};
}

Code Contexts::TakeMemory(int gpu) {
  if (!ledgers_[static_cast<std::size_t>(gpu)]->Take(bytes_)) return Code::kOutOfMemory;
  taken_ += bytes_;
  DeviceIsUsed();
  return Code::kSuccess;
}

void Contexts::GiveMemory(int gpu) {
  ledgers_[static_cast<std::size_t>(gpu)]->Give(bytes_);
  taken_ -= bytes_;
}

Code Contexts::RetainPrimary(int gpu) {
  std::lock_guard lock(mutex_);
  Primary& primary = primaries_[static_cast<std::size_t>(gpu)];
  if (primary.references == 0) {
    if (Code code = TakeMemory(gpu); code != Code::kSuccess) return code;
    primary.context.id = 1;
  }
  ++primary.references;
  return Code::kSuccess;
}

Code Contexts::ReleasePrimary(int gpu) {
  std::lock_guard lock(mutex_);
  Primary& primary = primaries_[static_cast<std::size_t>(gpu)];
  if (primary.references == 0) return Code::kInvalidContext;
  if (--primary.references == 0) {
    GiveMemory(gpu);
    primary.used_by_runtime = false;
  }
  return Code::kSuccess;
}

void Contexts::ResetPrimary(int gpu) {
  std::lock_guard lock(mutex_);
  Primary& primary = primaries_[static_cast<std::size_t>(gpu)];
  if (primary.references > 0) GiveMemory(gpu);
  primary.references = 0;
  primary.used_by_runtime = false;
  Stack().clear();
}

bool Contexts::PrimaryIsActive(int gpu, unsigned& flags) const {
  std::lock_guard lock(mutex_);
  const Primary& primary = primaries_[static_cast<std::size_t>(gpu)];
  flags = primary.context.flags;
  return primary.references > 0;
}

Code Contexts::SetPrimaryFlags(int gpu, unsigned flags) {
  std::lock_guard lock(mutex_);
  primaries_[static_cast<std::size_t>(gpu)].context.flags = flags;
  return Code::kSuccess;
}

Code Contexts::Create(int gpu, unsigned flags, Context*& out) {
  std::lock_guard lock(mutex_);
  if (Code code = TakeMemory(gpu); code != Code::kSuccess) return code;
  auto made = std::make_unique<Context>(Context{false, flags, next_id_++, gpu});
  out = made.get();
  made_.emplace(out, std::move(made));
  return Code::kSuccess;
}

Code Contexts::Destroy(Context* context) {
  std::lock_guard lock(mutex_);
  auto found = made_.find(context);
  if (found == made_.end()) return Code::kInvalidContext;
  GiveMemory(context->gpu);
  if (ContextStack& stack = Stack(); !stack.empty() && stack.back() == context) stack.pop_back();
  made_.erase(found);
  return Code::kSuccess;
}

bool Contexts::IsLive(const Context* context) const {
  std::lock_guard lock(mutex_);
  for (const Primary& primary : primaries_)
    if (context == &primary.context) return primary.references > 0;
  return made_.contains(context);
}

Context* Contexts::Current() const { return Stack().empty() ? nullptr : Stack().back(); }

void Contexts::SetCurrent(Context* context) {
  ContextStack& stack = Stack();
  if (!stack.empty()) stack.pop_back();
  if (context) stack.push_back(context);
}

void Contexts::Push(Context* context) { Stack().push_back(context); }

Code Contexts::Pop(Context*& out) {
  ContextStack& stack = Stack();
  if (stack.empty()) return Code::kInvalidContext;
  out = stack.back();
  stack.pop_back();
  return Code::kSuccess;
}

Code Contexts::MakePrimary(int gpu) {
  Initialize();
  std::lock_guard lock(mutex_);
  Primary& primary = primaries_[static_cast<std::size_t>(gpu)];
  if (primary.used_by_runtime) return Code::kSuccess;
  if (primary.references == 0) {
    if (Code code = TakeMemory(gpu); code != Code::kSuccess) return code;
    primary.context.id = 1;
  }
  ++primary.references;
  primary.used_by_runtime = true;
  return Code::kSuccess;
}

Code Contexts::Use() {
  if (!Stack().empty()) return Code::kSuccess;
  return UseGpu(0);
}

Code Contexts::UseGpu(int gpu) {
  if (!Stack().empty() && Stack().back() == primary(gpu)) return Code::kSuccess;
  if (Code code = MakePrimary(gpu); code != Code::kSuccess) return code;
  SetCurrent(primary(gpu));
  return Code::kSuccess;
}

}  // namespace ebbtide::phantom
