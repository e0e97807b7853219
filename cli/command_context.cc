// What a job gets from the command line beside its Request.
#include "cli/command_context.h"

#include "cli/interrupt.h"

namespace ebbtide::cli {

CommandContext::CommandContext(const OutputFlags& flags) : progress_(flags), capturer_(flags) {
  job_.progress = [this](const jobs::Progress& moment) { progress_.Show(moment); };
  job_.stop = Interrupted;
  job_.seed = flags.seed;
  job_.threads = ThreadsOf(flags);
  job_.capturer = &capturer_;
}

}  // namespace ebbtide::cli
