// An allocator for vectors that are read at random: tables of more than 2 MiB lie in huge pages where the system has
// any, so that a look-up costs one miss instead of two.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace ebbtide {

template <class T>
struct HugePages {
  using value_type = T;
  static constexpr std::size_t kPage = std::size_t{2} << 20;

  HugePages() = default;
  template <class U>
  HugePages(const HugePages<U>&) {}

  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes < kPage) return static_cast<T*>(::operator new(bytes, std::align_val_t(alignof(T))));
    const std::size_t rounded = (bytes + kPage - 1) / kPage * kPage;
    void* const memory = std::aligned_alloc(kPage, rounded);
    if (!memory) throw std::bad_alloc();
    madvise(memory, rounded, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) {
    if (count * sizeof(T) < kPage) {
      ::operator delete(memory, std::align_val_t(alignof(T)));
    } else {
      std::free(memory);
    }
  }
  bool operator==(const HugePages&) const { return true; }
};

}  // namespace ebbtide
