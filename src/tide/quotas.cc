// Counts blocks at the edges of pages by job, since a page is charged once to each job that has bytes in it.
#include "tide/quotas.h"

#include <algorithm>
#include <cassert>

namespace ebbtide::tide {
namespace {

constexpr Bytes kPage = DeviceMemory::kGranule;

// The pages that bytes lie in: the first, the last, and those between, which no other block touches.
struct Pages {
  Pages(Address begin, Bytes bytes) : first(begin / kPage), last((begin + static_cast<Address>(bytes) - 1) / kPage) {}
  std::int64_t between() const { return last > first ? static_cast<std::int64_t>(last - first) - 1 : 0; }
  std::uint64_t first, last;
};

}  // namespace

void TideQuotas::Activate(Bytes capacity) {
  active_ = true;
  capacity_ = capacity / kPage * kPage;
}

TideQuotas::Account& TideQuotas::At(JobId job) {
  if (AccountOf(job) >= accounts_.size()) accounts_.resize(AccountOf(job) + 1);
  return accounts_[AccountOf(job)];
}

TideQuotas::Account TideQuotas::Find(JobId job) const {
  return AccountOf(job) < accounts_.size() ? accounts_[AccountOf(job)] : Account{};
}

Bytes TideQuotas::charged(JobId job) const { return Find(job).charged; }
Quota TideQuotas::quota(JobId job) const { return Find(job).quota; }

Status TideQuotas::SetCapacity(Bytes capacity) {
  if (claimed_ > capacity) {
    return Fail("capacity {}: {} are guaranteed or in use already", FormatBytes(capacity), FormatBytes(claimed_));
  }
  capacity_ = capacity / kPage * kPage;
  return {};
}

Status TideQuotas::Set(JobId job, const Quota& quota) {
  if (quota.guaranteed < 0 || quota.limit < quota.guaranteed) {
    return Fail("quota of job {}: expected 0 <= guaranteed <= limit, not {} and {}", job.value, quota.guaranteed,
                quota.limit);
  }
  Account& account = At(job);
  Account changed = account;
  changed.quota = quota;
  const Bytes claimed = claimed_ - account.claim() + changed.claim();
  if (claimed > capacity_) {
    return Fail("quota of job {}: {} guaranteed are more than the {} of {} that nobody else is promised or has",
                job.value, FormatBytes(quota.guaranteed), FormatBytes(capacity_ - (claimed_ - account.claim())),
                FormatBytes(capacity_));
  }
  account = changed;
  claimed_ = claimed;
  return {};
}

bool TideQuotas::Admits(JobId job, Address begin, Bytes bytes) const {
  const Pages pages(begin, bytes);
  std::int64_t more = pages.between();
  if (!edges_.contains(Key(pages.first, job))) ++more;
  if (pages.last != pages.first && !edges_.contains(Key(pages.last, job))) ++more;
  Account account = Find(job);
  const Bytes others = claimed_ - account.claim();
  account.charged += more * kPage;
  return account.charged <= account.quota.limit && others + account.claim() <= capacity_;
}

void TideQuotas::Count(JobId job, Address begin, Bytes bytes, int change) {
  const Pages pages(begin, bytes);
  std::int64_t more = change * pages.between();
  const auto edge = [&](std::uint64_t page) {
    std::int32_t& blocks = edges_[Key(page, job)];
    if (blocks == 0) ++more;
    blocks += change;
    assert(blocks >= 0);
    if (blocks == 0) {
      --more;
      edges_.erase(Key(page, job));
    }
  };
  edge(pages.first);
  if (pages.last != pages.first) edge(pages.last);
  Account& account = At(job);
  claimed_ -= account.claim();
  account.charged += more * kPage;
  claimed_ += account.claim();
}

}  // namespace ebbtide::tide
