// Torch's own CUDA allocator (libc10_cuda) and the tide allocator (libebbtide_tide.so), driven the same way on the
// phantom GPU: compiled against the environment's torch and started by torch_bench.py, which says how.
//   torch_drive LIBRARY PAIRS
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <vector>

namespace {

struct Allocator {
  std::function<void*(std::size_t, cudaStream_t)> allocate;
  std::function<void(void*, std::size_t, cudaStream_t)> free;
  std::function<void()> empty;
};

double ProcessorTime() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

// `live` blocks; one at random is freed and another allocated, over and over.
class Program {
 public:
  Program(const Allocator& allocator, const std::vector<cudaStream_t>& streams, std::size_t live, std::size_t steps)
      : allocator_(allocator), streams_(streams), steps_(steps) {
    for (std::size_t i = 0; i < live; ++i) held_.push_back(New());
  }
  ~Program() {
    for (const Held& held : held_) allocator_.free(held.address, held.bytes, held.stream);
    cudaDeviceSynchronize();
    allocator_.empty();
  }
  // Nanoseconds for one call.
  double Run(std::size_t pairs) {
    const double begin = ProcessorTime();
    for (std::size_t i = 0; i < pairs; ++i) {
      Held& held = held_[random_() % held_.size()];
      allocator_.free(held.address, held.bytes, held.stream);
      held = New();
    }
    return (ProcessorTime() - begin) / static_cast<double>(2 * pairs);
  }

 private:
  struct Held {
    void* address;
    std::size_t bytes;
    cudaStream_t stream;
  };
  Held New() {
    Held held{nullptr, 512 * (1 + random_() % steps_), streams_[random_() % streams_.size()]};
    held.address = allocator_.allocate(held.bytes, held.stream);
    if (!held.address) std::abort();
    return held;
  }

  const Allocator& allocator_;
  const std::vector<cudaStream_t>& streams_;
  const std::size_t steps_;
  std::mt19937_64 random_{1};
  std::vector<Held> held_;
};

}  // namespace

int main(int argc, char** argv) {
  void* const library = argc > 2 ? dlopen(argv[1], RTLD_NOW) : nullptr;
  if (!library) return std::fprintf(stderr, "usage: torch_drive LIBRARY PAIRS\n"), 2;
  const std::size_t pairs = std::strtoul(argv[2], nullptr, 10);
  cudaSetDevice(0);
  c10::cuda::CUDACachingAllocator::init(1);
  auto* const torch = c10::cuda::CUDACachingAllocator::get();
  const Allocator of_torch{
      [=](std::size_t bytes, cudaStream_t stream) { return torch->raw_alloc_with_stream(bytes, stream); },
      [=](void* address, std::size_t, cudaStream_t) { torch->raw_delete(address); },
      [=] {
        torch->emptyCache({0, 0});
      }};
  const auto tide_malloc = reinterpret_cast<void* (*)(ssize_t, int, void*)>(dlsym(library, "ebbtide_tide_malloc"));
  const auto tide_free = reinterpret_cast<void (*)(void*, ssize_t, int, void*)>(dlsym(library, "ebbtide_tide_free"));
  const auto tide_empty = reinterpret_cast<void (*)()>(dlsym(library, "ebbtide_tide_empty_cache"));
  const Allocator tide{
      [=](std::size_t bytes, cudaStream_t stream) { return tide_malloc(static_cast<ssize_t>(bytes), 0, stream); },
      [=](void* address, std::size_t bytes, cudaStream_t stream) {
        tide_free(address, static_cast<ssize_t>(bytes), 0, stream);
      },
      tide_empty};
  for (const std::size_t count : {1, 2, 16}) {
    std::vector<cudaStream_t> streams(count);
    for (cudaStream_t& stream : streams) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    for (const std::size_t steps : {8, 128}) {
      for (const std::size_t live : {1000, 10000, 100000, 1000000}) {
        if (steps * live > 20000000) continue;
        double best[2] = {1e30, 1e30};
        const Allocator* const both[2] = {&of_torch, &tide};
        std::unique_ptr<Program> programs[2];
        for (int which : {0, 1}) {
          programs[which] = std::make_unique<Program>(*both[which], streams, live, steps);
          programs[which]->Run(std::max(pairs / 4, live / 2));
        }
        for (int repeat = 0; repeat < 5; ++repeat) {
          for (int which : {0, 1}) best[which] = std::min(best[which], programs[which]->Run(pairs / 5));
        }
        std::printf("%zu %zu %zu %.1f %.1f\n", count, steps, live, best[0], best[1]);
        std::fflush(stdout);
      }
    }
  }
}
