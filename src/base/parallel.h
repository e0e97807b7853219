// The same work for each of many, on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace ebbtide {

// Calls work(0) to work(count - 1), each once, in no given order; the caller's thread is one of `threads`. `work` does
// not throw.
template <class Work>
void ForEachIndex(std::size_t count, int threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> others;
  const std::size_t wanted = std::min(count, static_cast<std::size_t>(std::max(threads, 1)));
  for (std::size_t i = 1; i < wanted; ++i) others.emplace_back(run);
  run();
}

}  // namespace ebbtide
