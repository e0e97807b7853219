// Whether processes do something, by what the system tells of their threads. Threads that want the processor and do not
// get it, on a machine that is loaded, count: they would go on.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ebbtide::phantom {

// The state of a thread as /proc has it: 'R' runs or waits for a processor, 'D' waits for a disk, 'S' sleeps; 0: it is
// not there.
inline char StateOfThread(pid_t pid, pid_t thread) {
  char text[512];
  const std::string path = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(thread) + "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = read(file, text, sizeof(text) - 1);
  close(file);
  if (size <= 0) return 0;
  text[size] = '\0';
  const char* name_end = std::strrchr(text, ')');
  return name_end != nullptr && name_end[1] == ' ' ? name_end[2] : '\0';
}

// Threads of the process that run, want to run or wait for a disk, but for the calling one.
inline std::set<pid_t> RunnableThreads(pid_t pid) {
  std::set<pid_t> out;
  DIR* folder = opendir(("/proc/" + std::to_string(pid) + "/task").c_str());
  if (folder == nullptr) return out;
  while (const dirent* entry = readdir(folder)) {
    const pid_t thread = std::atoi(entry->d_name);
    if (thread <= 0 || thread == gettid()) continue;
    const char state = StateOfThread(pid, thread);
    if (state == 'R' || state == 'D') out.insert(thread);
  }
  closedir(folder);
  return out;
}

// Looks again and again.
class BusyThreads {
 public:
  // Whether a thread of one of them was runnable at this look and at the last. One that only watches is so by chance.
  bool Look(const std::vector<pid_t>& pids) {
    std::map<pid_t, std::set<pid_t>> now;
    bool busy = false;
    for (const pid_t pid : pids) {
      now[pid] = RunnableThreads(pid);
      for (const pid_t thread : now[pid]) busy = busy || last_[pid].contains(thread);
    }
    last_ = std::move(now);
    return busy;
  }

 private:
  std::map<pid_t, std::set<pid_t>> last_;
};

// Processes that it has started and not waited for.
inline std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> out;
  const std::string id = std::to_string(pid);
  const int file = open(("/proc/" + id + "/task/" + id + "/children").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return out;
  std::string text(4096, '\0');
  const ssize_t size = read(file, text.data(), text.size() - 1);
  close(file);
  for (char* at = text.data(); size > 0;) {
    char* end = nullptr;
    const long child = std::strtol(at, &end, 10);
    if (end == at) break;
    out.push_back(static_cast<pid_t>(child));
    at = end;
  }
  return out;
}

}  // namespace ebbtide::phantom
