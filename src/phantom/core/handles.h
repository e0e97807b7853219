// Handles that a program holds: addresses of our objects, known while they live, so that a wrong or destroyed handle is
// an error of the program's and not a crash of ours.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace ebbtide::phantom {

template <class T>
class Handles {
 public:
  template <class... Args>
  std::shared_ptr<T> Create(Args&&... args) {
    auto object = std::make_shared<T>(std::forward<Args>(args)...);
    Shard& shard = Of(object.get());
    std::lock_guard lock(shard.mutex);
    shard.objects.emplace(object.get(), object);
    return object;
  }

  // Null: not a handle, or no longer.
  std::shared_ptr<T> Find(const void* handle) {
    Shard& shard = Of(handle);
    std::lock_guard lock(shard.mutex);
    auto found = shard.objects.find(handle);
    return found == shard.objects.end() ? nullptr : found->second;
  }

  // The object, which is no longer a handle; it lives on while somebody holds it.
  std::shared_ptr<T> Remove(const void* handle) {
    Shard& shard = Of(handle);
    std::lock_guard lock(shard.mutex);
    auto found = shard.objects.find(handle);
    if (found == shard.objects.end()) return nullptr;
    std::shared_ptr<T> object = std::move(found->second);
    shard.objects.erase(found);
    return object;
  }

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<const void*, std::shared_ptr<T>> objects;
  };

  Shard& Of(const void* handle) { return shards_[(reinterpret_cast<std::uintptr_t>(handle) >> 6) % shards_.size()]; }

  std::array<Shard, 16> shards_;
};

}  // namespace ebbtide::phantom
