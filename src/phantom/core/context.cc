// Contexts and the stack of them that each thread has.
#include "phantom/core/context.h"

#include "phantom/core/begin.h"

namespace ebbtide::phantom {
namespace {

std::vector<Context*>& Stack() {
  thread_local std::vector<Context*> stack;
  return stack;
}

}  // namespace

Code Contexts::TakeMemory() {
  if (!ledger_.Take(bytes_)) return Code::kOutOfMemory;
  taken_ += bytes_;
  DeviceIsUsed();
  return Code::kSuccess;
}

void Contexts::GiveMemory() {
  ledger_.Give(bytes_);
  taken_ -= bytes_;
}

Code Contexts::RetainPrimary() {
  std::lock_guard lock(mutex_);
  if (primary_references_ == 0) {
    if (Code code = TakeMemory(); code != Code::kSuccess) return code;
    primary_.id = 1;
  }
  ++primary_references_;
  return Code::kSuccess;
}

Code Contexts::ReleasePrimary() {
  std::lock_guard lock(mutex_);
  if (primary_references_ == 0) return Code::kInvalidContext;
  if (--primary_references_ == 0) {
    GiveMemory();
    used_by_runtime_ = false;
  }
  return Code::kSuccess;
}

void Contexts::ResetPrimary() {
  std::lock_guard lock(mutex_);
  if (primary_references_ > 0) GiveMemory();
  primary_references_ = 0;
  used_by_runtime_ = false;
  Stack().clear();
}

bool Contexts::PrimaryIsActive(unsigned& flags) const {
  std::lock_guard lock(mutex_);
  flags = primary_.flags;
  return primary_references_ > 0;
}

Code Contexts::SetPrimaryFlags(unsigned flags) {
  std::lock_guard lock(mutex_);
  primary_.flags = flags;
  return Code::kSuccess;
}

Code Contexts::Create(unsigned flags, Context*& out) {
  std::lock_guard lock(mutex_);
  if (Code code = TakeMemory(); code != Code::kSuccess) return code;
  auto made = std::make_unique<Context>(Context{false, flags, next_id_++});
  out = made.get();
  made_.emplace(out, std::move(made));
  return Code::kSuccess;
}

Code Contexts::Destroy(Context* context) {
  std::lock_guard lock(mutex_);
  auto found = made_.find(context);
  if (found == made_.end()) return Code::kInvalidContext;
  GiveMemory();
  if (std::vector<Context*>& stack = Stack(); !stack.empty() && stack.back() == context) stack.pop_back();
  made_.erase(found);
  return Code::kSuccess;
}

bool Contexts::IsLive(const Context* context) const {
  std::lock_guard lock(mutex_);
  return context == &primary_ ? primary_references_ > 0 : made_.contains(context);
}

Context* Contexts::Current() const { return Stack().empty() ? nullptr : Stack().back(); }

void Contexts::SetCurrent(Context* context) {
  std::vector<Context*>& stack = Stack();
  if (!stack.empty()) stack.pop_back();
  if (context) stack.push_back(context);
}

void Contexts::Push(Context* context) { Stack().push_back(context); }

Code Contexts::Pop(Context*& out) {
  std::vector<Context*>& stack = Stack();
  if (stack.empty()) return Code::kInvalidContext;
  out = stack.back();
  stack.pop_back();
  return Code::kSuccess;
}

Code Contexts::Use() {
  if (!Stack().empty()) return Code::kSuccess;
  Initialize();
  {
    std::lock_guard lock(mutex_);
    if (!used_by_runtime_) {
      if (primary_references_ == 0) {
        if (Code code = TakeMemory(); code != Code::kSuccess) return code;
        primary_.id = 1;
      }
      ++primary_references_;
      used_by_runtime_ = true;
    }
  }
  Push(&primary_);
  return Code::kSuccess;
}

}  // namespace ebbtide::phantom
