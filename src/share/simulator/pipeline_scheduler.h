// The scheduler of real steps under the simulator's clock: the same dispatcher, called as threads call it.
#pragma once

#include <memory>
#include <vector>

#include "share/scheduler/dispatcher.h"
#include "share/scheduler/job.h"
#include "share/simulator/group_scheduler.h"

namespace ebbtide::share {

class PipelineScheduler : public GroupScheduler {
 public:
  // `lanes`: the number of each job's lane. Jobs join in JoinOrder. An error says who does not fit.
  static Result<PipelineScheduler> Make(const std::vector<Job>& jobs, const std::vector<int>& lanes,
                                        DispatcherOptions options) {
    PipelineScheduler out(std::move(options));
    out.members_.resize(jobs.size());
    for (const std::size_t i : JoinOrder(jobs, lanes)) {
      EBB_ASSIGN_OR_RETURN(out.members_[i].id, out.dispatcher_.Join(ShapeOf(jobs[i], lanes[i])));
      out.members_[i].last = static_cast<int>(jobs[i].cut.groups.size()) - 1;
    }
    return out;
  }

  std::optional<Nanos> TryStart(std::size_t job, int group, double) override {
    Member& member = members_[job];
    if (group == 0 && !member.asked) {
      member.asked = true;
      dispatcher_.Begin(member.id);
    }
    if (!dispatcher_.Take(member.id)) return std::nullopt;
    return Nanos{0};
  }

  // The job asks for its next group in the same moment, as a thread does.
  void Finished(std::size_t job, int group, double) override {
    Member& member = members_[job];
    if (group < member.last) return dispatcher_.Next(member.id, group + 1);
    dispatcher_.Left(member.id);
    dispatcher_.End(member.id);
    member.asked = false;
  }

  void Rest(std::size_t job) override { dispatcher_.Rest(members_[job].id); }

  const Pipeline& pipeline() const { return dispatcher_.pipeline(); }
  JobId id(std::size_t job) const { return members_[job].id; }

 private:
  struct Member {
    JobId id;
    int last = 0;        // its last group
    bool asked = false;  // for this iteration
  };
  explicit PipelineScheduler(DispatcherOptions options) : dispatcher_(std::move(options)) {}
  Dispatcher dispatcher_;
  std::vector<Member> members_;
};

}  // namespace ebbtide::share
