// Lays out a job: times, groups and the lengths of its copies.
#include "share/simulator/job_layout.h"

namespace ebbtide::share {

JobLayout LayOut(const Job& job, const Link& link) {
  const sim::Workload& workload = job.training->workload;
  const sim::Schedule& schedule = job.placement.schedule;
  JobLayout out;
  out.boundaries = sim::MakeLayout(workload, schedule);
  for (const OpId op : schedule.steps) {
    const Nanos launch = job.training->launch[op];
    out.steps.push_back({.launch = static_cast<double>(launch),
                         .body = static_cast<double>(workload.time[op] - launch),
                         .share = job.training->share[op]});
  }
  for (const sim::Stay& stay : schedule.stays) {
    const Bytes bytes = workload.bytes[stay.storage];
    out.copy_out.push_back(stay.end == sim::End::kCopyOut ? link.TimeOut(bytes) : 0);
    out.copy_in.push_back(stay.begin == sim::Begin::kCopyIn ? link.TimeIn(bytes) : 0);
  }
  for (const NodeGroup& group : job.cut.groups) {
    out.group_of.resize(group.end.index(), static_cast<std::uint32_t>(out.group_end.size()));
    out.group_end.push_back(group.end);
  }
  return out;
}

}  // namespace ebbtide::share
