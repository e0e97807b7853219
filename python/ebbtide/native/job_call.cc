// Runs jobs on a thread of their own, while the calling thread serves Python.
#include "job_call.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "signals.h"

namespace ebbtide::core {
namespace {

namespace nb = nanobind;

// Who presses Ctrl-C is promised an end within 200 ms; all but this is the job's to return in.
constexpr std::chrono::milliseconds kLook(20);

// What the two threads tell each other.
struct Shared {
  std::atomic<bool> stop = false;
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  std::optional<jobs::Progress> moment;  // that Python has not been told of
};

// Fails with Python's exception set where a handler or the function raised one.
bool Serve(const nb::object& progress, const std::optional<jobs::Progress>& moment) {
  if (SignalRaised()) return false;
  if (!moment || progress.is_none()) return true;
  PyObject* const answer =
      PyObject_CallFunction(progress.ptr(), "sds", moment->phase.c_str(), moment->share, moment->note.c_str());
  Py_XDECREF(answer);
  return answer != nullptr;
}

}  // namespace

void RunOnThread(const JobOptions& options, const std::function<void(const jobs::JobContext&)>& work) {
  Shared shared;
  jobs::JobContext context;
  context.seed = options.seed;
  context.threads =
      options.threads > 0 ? options.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  context.stop = [&shared] { return shared.stop.load(); };
  if (!options.progress.is_none()) {
    context.progress = [&shared](const jobs::Progress& moment) {
      const std::lock_guard lock(shared.mutex);
      shared.moment = moment;
    };
  }
  std::exception_ptr thrown;  // a broken invariant, or no memory: the caller's
  std::thread worker([&] {
    try {
      work(context);
    } catch (...) {
      thrown = std::current_exception();
    }
    const std::lock_guard lock(shared.mutex);
    shared.ended = true;
    shared.changed.notify_one();
  });
  std::optional<nb::python_error> raised;
  for (bool ended = false; !ended;) {
    std::optional<jobs::Progress> moment;
    {
      const nb::gil_scoped_release unlocked;
      std::unique_lock lock(shared.mutex);
      shared.changed.wait_for(lock, kLook, [&] { return shared.ended; });
      ended = shared.ended;
      moment = std::exchange(shared.moment, std::nullopt);
    }
    if (raised || Serve(options.progress, moment)) continue;
    raised.emplace();
    shared.stop = true;
  }
  worker.join();
  if (raised) throw *std::move(raised);
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace ebbtide::core
