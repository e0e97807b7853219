// Wavelet: two waves. An iteration begins when the one that runs has passed its memory peak, so that forward meets
// backward. One shared pool without fragmentation; a group whose bytes do not fit waits, and may wait in vain.
#include "share/baselines/waves.h"

namespace ebbtide::share {
namespace {

class Wavelet : public Waves {
 public:
  using Waves::Waves;

 private:
  bool MayBegin(std::size_t job) const override {
    if (!IsNext(job)) return false;
    int within = 0;
    for (const Wave& wave : waves_) {
      if (!wave.within) continue;
      const bool past_peak = wave.group > wave.peak_group || (wave.group == wave.peak_group && !wave.runs);
      if (++within > 1 || !past_peak) return false;
    }
    return true;
  }
};

}  // namespace

BaselineResult RunWavelet(const BaselineInput& input) {
  Wavelet scheduler(input, input.options.capacity);
  return RunWaves("wavelet", input, scheduler);
}

}  // namespace ebbtide::share
