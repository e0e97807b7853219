// Zico: an iteration is put off until the memory curves of all that are within one, each as it runs alone from where it
// stands, and its own add up to no more than the memory. One shared pool without fragmentation. What comes out
// otherwise than predicted waits for memory, and may wait in vain.
#include "share/baselines/waves.h"

namespace ebbtide::share {
namespace {

class Zico : public Waves {
 public:
  using Waves::Waves;

 private:
  struct Piece {
    double begin, end;
    Bytes bytes;
  };

  std::vector<Piece> Future(const Wave& wave, int from) const {
    std::vector<Piece> out;
    double at = 0;
    for (std::size_t g = static_cast<std::size_t>(from); g < wave.bytes.size(); ++g) {
      out.push_back({at, at + static_cast<double>(wave.time[g]), wave.bytes[g].peak});
      at = out.back().end;
    }
    return out;
  }

  bool MayBegin(std::size_t job) const override {
    if (!IsNext(job)) return false;
    std::vector<std::vector<Piece>> curves = {Future(waves_[job], 0)};
    for (const Wave& wave : waves_) {
      if (wave.within) curves.push_back(Future(wave, wave.runs ? wave.group : wave.group + 1));
    }
    // The sum changes where a piece of some curve begins.
    for (const auto& changes : curves) {
      for (const Piece& change : changes) {
        Bytes sum = 0;
        for (const auto& curve : curves) {
          for (const Piece& piece : curve) {
            if (piece.begin <= change.begin && change.begin < piece.end) sum += piece.bytes;
          }
        }
        if (sum > room_) return false;
      }
    }
    return true;
  }
};

}  // namespace

BaselineResult RunZico(const BaselineInput& input) {
  Zico scheduler(input, input.options.capacity);
  return RunWaves("zico", input, scheduler);
}

}  // namespace ebbtide::share
