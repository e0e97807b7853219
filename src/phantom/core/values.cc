// Contents that are known, at the border between the phantom and who computes them.
#include "phantom/core/values.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "phantom/core/device.h"

namespace ebbtide::phantom {
namespace {

std::atomic<ebbtide_phantom_on_read> on_read{nullptr};

// Launches of each operation that the thread is in, innermost last.
std::vector<int64_t>& Operations() {
  thread_local std::vector<int64_t> launches;
  return launches;
}

bool IsFollowed() {
  if (on_read.load(std::memory_order_acquire) == nullptr || Operations().empty()) return false;
  ++Operations().back();
  return true;
}

// Buffers that are padded, as those of objects that ranks exchange, begin with what is known.
void PutKnownBeginning(const Device& device, uint64_t from, Bytes bytes, std::byte* out) {
  Bytes known = 0;
  for (Bytes unknown = std::min(bytes, KnownContent::kLargestCopy + 1); unknown - known > 1;) {
    const Bytes middle = (known + unknown) / 2;
    (device.known.Knows(from, middle) ? known : unknown) = middle;
  }
  if (known == 0) return;
  std::vector<std::byte> content(static_cast<std::size_t>(known));
  if (device.known.Read(from, known, content.data())) std::memcpy(out, content.data(), content.size());
}

}  // namespace

void NoteLaunch(Device& device) {
  if (!IsFollowed()) device.known.ForgetAll();
}

bool ReadKnown(Device& device, uint64_t from, Bytes bytes, std::byte* out, bool& is_true) {
  std::uint32_t origin = 0;
  const bool known = out != nullptr && device.known.Read(from, bytes, out, &origin);
  if (known && origin == 0) return true;
  const bool was_true = is_true;
  is_true = false;
  const ebbtide_phantom_on_read ask = on_read.load(std::memory_order_acquire);
  if (ask == nullptr) return known;
  const int answered =
      ask(reinterpret_cast<const void*>(from), static_cast<std::size_t>(bytes), known ? 1 : 0, origin, out);
  if (!known && answered == 2) is_true = was_true;
  if (!known && out != nullptr) PutKnownBeginning(device, from, bytes, out);
  return known || answered != 0;
}

}  // namespace ebbtide::phantom

using namespace ebbtide::phantom;

namespace {

Address AddressOf(const void* pointer) { return reinterpret_cast<Address>(pointer); }

}  // namespace

void ebbtide_phantom_watch_values(ebbtide_phantom_on_read function) { on_read = function; }

void ebbtide_phantom_enter() { Operations().push_back(0); }

int64_t ebbtide_phantom_leave() {
  if (Operations().empty()) return 0;
  const int64_t launches = Operations().back();
  Operations().pop_back();
  return launches;
}

int64_t ebbtide_phantom_launched() { return Operations().empty() ? 0 : Operations().back(); }

int ebbtide_phantom_knows(const void* address, size_t bytes, uint32_t* origin) {
  return TheDevice().known.Knows(AddressOf(address), static_cast<ebbtide::Bytes>(bytes), origin) ? 1 : 0;
}

int ebbtide_phantom_read(const void* address, size_t bytes, void* out, uint32_t* origin) {
  return TheDevice().known.Read(AddressOf(address), static_cast<ebbtide::Bytes>(bytes), static_cast<std::byte*>(out),
                                origin)
             ? 1
             : 0;
}

void ebbtide_phantom_write(const void* address, size_t bytes, const void* data, uint32_t origin) {
  TheDevice().known.Write(AddressOf(address), static_cast<const std::byte*>(data), static_cast<ebbtide::Bytes>(bytes),
                          origin);
}

void ebbtide_phantom_forget(const void* address, size_t bytes) {
  TheDevice().known.Forget(AddressOf(address), static_cast<ebbtide::Bytes>(bytes));
}
