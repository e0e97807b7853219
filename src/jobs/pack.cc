// Reads an instance and packs it.
#include "jobs/pack.h"

#include "jobs/stop.h"

namespace ebbtide::jobs {

Result<PackResult> Pack(const PackRequest& request, const JobContext& context) {
  if (request.path.empty() && !request.instance) return Fail("expected an INSTANCE.csv");
  if (!(request.time_limit >= 0)) return Fail("--time-limit: expected seconds from 0 on, found {}", request.time_limit);
  const Deadline deadline = Deadline::OfLimit(request.time_limit);
  StopSignal stop(context);
  PackResult out;
  out.path = request.path;
  if (request.instance) {
    out.instance = *request.instance;
  } else {
    EBB_ASSIGN_OR_RETURN(out.instance, pack::ReadPackInstance(request.path));
  }
  if (const Status status = pack::CheckPackItems(out.instance.items, request.alignment); !status) {
    return request.path.empty() ? tl::unexpected<Error>(status.error()) : Within(request.path, status.error());
  }
  pack::PackOptions options;
  options.capacity = request.capacity;
  options.alignment = request.alignment;
  options.seed = context.seed;
  options.evaluations = request.evaluations;
  options.deadline = deadline;
  options.cancelled = stop.Function();
  out.packing = pack::Pack(out.instance.items, options);
  EBB_RETURN_IF_ERROR(stop.Check());
  out.capacity = request.capacity > 0 ? request.capacity : out.packing.lower_bound;
  return out;
}

}  // namespace ebbtide::jobs
