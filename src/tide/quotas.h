// How much of the device each job may have. A job is charged for every page that holds a byte of a block of its own,
// whoever else has bytes there. Of all jobs, the sum of what each is charged or guaranteed, whichever is more, never
// exceeds the capacity. So there are always pages for a job that stays within its guarantee: at most the capacity less
// what the others are guaranteed unused is in use by anybody. Beyond its guarantee a job gets what nobody is promised.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "tide/names.h"

namespace ebbtide::tide {

using JobId = Id<struct JobTag>;

struct Quota {
  Bytes guaranteed = 0;     // always to be had
  Bytes limit = kTooLarge;  // guaranteed and burst together
};

class TideQuotas {
 public:
  // Whether anything is counted: only from Activate on, which the first quota or capacity calls for.
  bool active() const { return active_; }
  void Activate(Bytes capacity);
  Bytes capacity() const { return capacity_; }

  // Refused, with the reason, where the guarantees would be more than there is.
  Status SetCapacity(Bytes capacity);
  Status Set(JobId job, const Quota& quota);

  // Whether the job may have a block of these bytes beside what it is charged for.
  bool Admits(JobId job, Address begin, Bytes bytes) const;
  void Charge(JobId job, Address begin, Bytes bytes) { Count(job, begin, bytes, 1); }
  void Release(JobId job, Address begin, Bytes bytes) { Count(job, begin, bytes, -1); }

  Bytes charged(JobId job) const;
  Quota quota(JobId job) const;

 private:
  struct Account {
    Quota quota;
    Bytes charged = 0;
    Bytes claim() const { return charged > quota.guaranteed ? charged : quota.guaranteed; }
  };

  // Jobs that nobody named share the first account.
  static std::size_t AccountOf(JobId job) { return static_cast<std::size_t>(job.value + 1); }
  static std::uint64_t Key(std::uint64_t page, JobId job) { return page << 16 | AccountOf(job); }
  Account& At(JobId job);
  Account Find(JobId job) const;
  void Count(JobId job, Address begin, Bytes bytes, int change);

  bool active_ = false;
  Bytes capacity_ = 0;
  Bytes claimed_ = 0;  // the sum of all claims
  std::vector<Account> accounts_;
  std::unordered_map<std::uint64_t, std::int32_t> edges_;  // by page and job: blocks that begin or end there
};

}  // namespace ebbtide::tide
