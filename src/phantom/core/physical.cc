// A shareable piece is a file in memory: one page that says what it is, then the content, if any.
#include "phantom/core/physical.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ebbtide::phantom {
namespace {

constexpr Bytes kHeader = 4096;
constexpr std::uint64_t kMagic = 0x454242544944504d;

struct Header {
  std::uint64_t magic;
  std::int64_t size;
  std::int64_t has_content;
  std::int64_t gpu;
};

}  // namespace

bool BackingBudget::Take(Bytes bytes) {
  Bytes left = left_.load(std::memory_order_relaxed);
  while (left >= bytes)
    if (left_.compare_exchange_weak(left, left - bytes, std::memory_order_relaxed)) return true;
  return false;
}

std::shared_ptr<Physical> Physical::Create(Ledger& ledger, BackingBudget& budget, Bytes bytes, Share share) {
  if (!ledger.Take(bytes)) return nullptr;
  std::shared_ptr<Physical> out(new Physical);
  out->ledger_ = &ledger;
  out->gpu_ = ledger.gpu();
  out->size_ = bytes;
  return out->Map(budget, share) ? out : nullptr;
}

std::shared_ptr<Physical> Physical::CreateUncharged(BackingBudget& budget, Bytes bytes, int gpu) {
  std::shared_ptr<Physical> out(new Physical);
  out->gpu_ = gpu;
  out->size_ = bytes;
  return out->Map(budget, Share::kPrivate) ? out : nullptr;
}

bool Physical::Map(BackingBudget& budget, Share share) {
  bool backed = budget.Take(size_);
  if (backed) budget_ = &budget;
  bool shareable = share == Share::kShareable;
  if (shareable) {
    mapped_size_ = kHeader + (backed ? size_ : 0);
    fd_ = memfd_create("ebbtide-phantom", MFD_CLOEXEC);
    if (fd_ < 0 || ftruncate(fd_, mapped_size_) != 0) return false;
  } else if (backed) {
    mapped_size_ = size_;
  } else {
    return true;
  }
  int flags = shareable ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* at = mmap(nullptr, mapped_size_, PROT_READ | PROT_WRITE, flags, fd_, 0);
  if (at == MAP_FAILED) return false;
  mapped_ = static_cast<std::byte*>(at);
  if (shareable) *static_cast<Header*>(at) = {kMagic, size_, backed, gpu_};
  if (backed) content_ = mapped_ + (shareable ? kHeader : 0);
  return true;
}

std::shared_ptr<Physical> Physical::Import(int fd) {
  struct stat status = {};
  if (fstat(fd, &status) != 0 || status.st_size < kHeader) return nullptr;
  Header header = {};
  if (pread(fd, &header, sizeof(header), 0) != sizeof(header) || header.magic != kMagic) return nullptr;
  Bytes expected = kHeader + (header.has_content ? header.size : 0);
  if (header.size <= 0 || status.st_size != expected) return nullptr;
  std::shared_ptr<Physical> out(new Physical);
  out->fd_ = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (out->fd_ < 0) return nullptr;
  void* at = mmap(nullptr, expected, PROT_READ | PROT_WRITE, MAP_SHARED, out->fd_, 0);
  if (at == MAP_FAILED) return nullptr;
  out->mapped_ = static_cast<std::byte*>(at);
  out->mapped_size_ = expected;
  out->size_ = header.size;
  out->gpu_ = static_cast<int>(header.gpu);
  if (header.has_content) out->content_ = out->mapped_ + kHeader;
  return out;
}

Physical::~Physical() {
  if (mapped_) munmap(mapped_, mapped_size_);
  if (fd_ >= 0) close(fd_);
  if (budget_) budget_->Give(size_);
  if (ledger_) ledger_->Give(size_);
}

int Physical::Export() const { return fd_ < 0 ? -1 : fcntl(fd_, F_DUPFD_CLOEXEC, 0); }

}  // namespace ebbtide::phantom
