// The shared table is a file in memory with one slot per process. A process holds a record lock on its slot's byte for
// as long as it lives; the kernel drops it with the process, and whoever next looks at the table clears the slot.
// Byte 0 is the lock of the table itself. Record locks belong to the process, so a mutex keeps its threads apart.
#include "phantom/core/ledger.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ebbtide::phantom {
namespace {

constexpr int kSlots = 1023;

struct flock RecordLock(short type, off_t byte) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

[[noreturn]] void Refuse(const std::string& name, const char* what) {
  std::fprintf(stderr, "phantom: EBBTIDE_PHANTOM_SHARED=%s: %s: %s\n", name.c_str(), what, std::strerror(errno));
  std::_Exit(2);
}

}  // namespace

struct Ledger::SharedTable {
  struct Slot {
    std::int64_t pid;
    std::int64_t bytes;
  };
  std::int64_t peak;  // the most that all of them held at a time, as long as the table exists
  std::int64_t unused;
  Slot slots[kSlots];
};

Ledger::Ledger(Bytes capacity, const std::string& shared, int gpu) : capacity_(capacity), gpu_(gpu) {
  if (!shared.empty()) OpenShared(shared);
}

// False: the table was removed between the opening and the lock, by the last process on it.
bool Ledger::OpenAndLock(const std::string& name) {
  fd_ = shm_open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd_ < 0) Refuse(name, "cannot open the shared table");
  if (!Lock()) Refuse(name, "cannot lock the shared table");
  struct stat status = {};
  if (fstat(fd_, &status) == 0 && status.st_nlink > 0) return true;
  close(fd_);
  return false;
}

void Ledger::OpenShared(const std::string& name) {
  path_ = "/ebbtide-phantom-" + name;
  while (!OpenAndLock(name)) {
  }
  if (ftruncate(fd_, sizeof(SharedTable)) != 0) Refuse(name, "cannot size the shared table");
  void* at = mmap(nullptr, sizeof(SharedTable), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (at == MAP_FAILED) Refuse(name, "cannot map the shared table");
  table_ = static_cast<SharedTable*>(at);
  ClaimSlot();
  Unlock();
  if (slot_ < 0) {
    errno = EAGAIN;
    Refuse(name, "more than 1023 processes");
  }
}

void Ledger::Leave() {
  if (!table_) return;
  if (!Lock()) return;
  table_->slots[slot_] = {0, 0};
  bool alone = true;
  for (int slot = 0; slot < kSlots; ++slot)
    if (slot != slot_ && table_->slots[slot].pid != 0 && !SlotIsDead(slot)) alone = false;
  if (alone) shm_unlink(path_.c_str());
  Unlock();
}

void Ledger::ClaimSlot() {
  for (int slot = 0; slot < kSlots; ++slot) {
    struct flock lock = RecordLock(F_WRLCK, 1 + slot);
    if (fcntl(fd_, F_SETLK, &lock) != 0) continue;
    slot_ = slot;
    table_->slots[slot] = {getpid(), 0};
    return;
  }
}

bool Ledger::Lock() const {
  struct flock lock = RecordLock(F_WRLCK, 0);
  while (fcntl(fd_, F_SETLKW, &lock) != 0)
    if (errno != EINTR) return false;
  return true;
}

void Ledger::Unlock() const {
  struct flock lock = RecordLock(F_UNLCK, 0);
  fcntl(fd_, F_SETLK, &lock);
}

bool Ledger::SlotIsDead(int slot) const {
  if (slot == slot_) return false;
  struct flock lock = RecordLock(F_WRLCK, 1 + slot);
  return fcntl(fd_, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

Bytes Ledger::SumShared() const {
  Bytes sum = 0;
  for (int slot = 0; slot < kSlots; ++slot) {
    SharedTable::Slot& entry = table_->slots[slot];
    if (entry.pid == 0) continue;
    if (SlotIsDead(slot)) entry = {0, 0};
    sum += entry.bytes;
  }
  return sum;
}

bool Ledger::Take(Bytes bytes) {
  std::lock_guard guard(mutex_);
  if (table_) Lock();
  Bytes held = table_ ? SumShared() : own_.load();
  bool fits = bytes <= capacity_ - held;
  if (fits) {
    own_ += bytes;
    own_peak_ = std::max(own_peak_.load(), own_.load());
    if (table_) {
      table_->slots[slot_].bytes = own_;
      table_->peak = std::max(table_->peak, held + bytes);
    }
  }
  if (table_) Unlock();
  return fits;
}

void Ledger::Give(Bytes bytes) {
  std::lock_guard guard(mutex_);
  if (table_) Lock();
  own_ -= bytes;
  if (table_) {
    table_->slots[slot_].bytes = own_;
    Unlock();
  }
}

Bytes Ledger::all_peak() const { return table_ ? table_->peak : own_peak_.load(); }

Bytes Ledger::all() const {
  Bytes sum = 0;
  for (const Holder& holder : holders()) sum += holder.bytes;
  return sum;
}

std::vector<Ledger::Holder> Ledger::holders() const {
  std::lock_guard guard(mutex_);
  std::vector<Holder> out;
  if (!table_) {
    if (own_ > 0) out.push_back({getpid(), own_});
    return out;
  }
  Lock();
  SumShared();
  for (const SharedTable::Slot& slot : table_->slots)
    if (slot.pid != 0 && slot.bytes > 0) out.push_back({static_cast<int>(slot.pid), slot.bytes});
  Unlock();
  return out;
}

}  // namespace ebbtide::phantom
