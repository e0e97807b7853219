// The JSON file at the end of the process.
#include "phantom/core/statistics.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "phantom/core/call.h"
#include "phantom/core/device.h"
#include "phantom/core/end.h"

namespace ebbtide::phantom {
namespace {

// Text into a file through a buffer that is always there.
class Writer {
 public:
  explicit Writer(int fd) : fd_(fd) {}
  ~Writer() { Flush(); }

  void Text(std::string_view text) {
    for (char c : text) {
      if (used_ == sizeof(buffer_)) Flush();
      buffer_[used_++] = c;
    }
  }

  void Quoted(std::string_view text) {
    constexpr char kDigits[] = "0123456789abcdef";
    Text("\"");
    for (char c : text) {
      auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        const char pair[2] = {'\\', c};
        Text({pair, 2});
      } else if (byte < 0x20) {
        const char escape[6] = {'\\', 'u', '0', '0', kDigits[byte >> 4], kDigits[byte & 15]};
        Text({escape, 6});
      } else {
        Text({&c, 1});
      }
    }
    Text("\"");
  }

  void Number(std::int64_t value) {
    char digits[24];
    int at = sizeof(digits);
    std::uint64_t rest = value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
    do digits[--at] = static_cast<char>('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (value < 0) digits[--at] = '-';
    Text({digits + at, sizeof(digits) - at});
  }

  // The next member of the object or list that is open.
  void Key(std::string_view key) {
    if (!first_) Text(",");
    Text("\n");
    Text(std::string_view("      ").substr(0, 1 + static_cast<std::size_t>(depth_)));
    first_ = false;
    if (key.empty()) return;
    Quoted(key);
    Text(": ");
  }
  void Open(std::string_view bracket) { Text(bracket), first_ = true, ++depth_; }
  void Close(std::string_view bracket) { Text(bracket), first_ = false, --depth_; }
  void Field(std::string_view key, std::int64_t value) { Key(key), Number(value); }
  void Field(std::string_view key, std::string_view value) { Key(key), Quoted(value); }
  void Field(std::string_view key, const Tally& tally) {
    Key(key);
    Text("{\"count\": ");
    Number(tally.count);
    Text(", \"bytes\": ");
    Number(tally.bytes);
    Text("}");
  }

 private:
  void Flush() {
    std::size_t done = 0;
    while (done < used_) {
      ssize_t n = write(fd_, buffer_ + done, used_ - done);
      if (n <= 0) break;
      done += static_cast<std::size_t>(n);
    }
    used_ = 0;
  }

  int fd_;
  std::size_t used_ = 0;
  bool first_ = true;
  int depth_ = 0;
  char buffer_[4096];
};

void WriteCalls(Writer& out, std::string_view key, std::atomic<std::int64_t> CallRecord::*count) {
  out.Key(key);
  out.Open("{");
  for (const CallRecord* call = AllCalls(); call; call = call->next)
    if (std::int64_t n = (call->*count).load(std::memory_order_relaxed); n > 0) out.Field(call->name, n);
  out.Close("}");
}

constexpr std::string_view kKinds[] = {"read", "write", "free", "allocate"};  // of AccessKind

void WriteSite(Writer& out, std::string_view key, const RaceChecker::Site& site) {
  out.Text(key);
  out.Text("{\"stream\": ");
  out.Number(site.stream);
  out.Text(", \"operation\": ");
  out.Number(static_cast<std::int64_t>(site.operation));
  out.Text(", \"access\": ");
  out.Quoted(kKinds[static_cast<int>(site.kind)]);
  out.Text(", \"name\": ");
  out.Quoted(site.name);
  out.Text(", \"frame\": ");
  out.Quoted(site.frame);
  out.Text("}");
}

void WriteRaces(Writer& out, const Device& device, bool killed) {
  if (!device.races || killed) return;  // its lock may be held by the thread that the signal stopped
  out.Field("race_count", device.races->race_count());
  out.Field("declared_accesses", device.races->access_count());
  out.Key("races");
  out.Open("[");
  for (const RaceChecker::Race& race : device.races->races()) {
    out.Key("");
    WriteSite(out, "{\"first\": ", race.first);
    WriteSite(out, ", \"second\": ", race.second);
    out.Text(", \"address\": ");
    out.Number(static_cast<std::int64_t>(race.begin));
    out.Text(", \"bytes\": ");
    out.Number(race.bytes);
    out.Text(", \"count\": ");
    out.Number(race.count);
    out.Text("}");
  }
  out.Close("]");
}

// The figures of the GPU of which this process took most, and those of each that it took memory of.
void WriteGpus(Writer& out, const Device& device) {
  const Gpu* most = device.gpus[0].get();
  for (const auto& gpu : device.gpus)
    if (gpu->ledger.own_peak() > most->ledger.own_peak()) most = gpu.get();
  out.Field("peak_bytes", most->ledger.own_peak());
  out.Field("device_peak_bytes", most->ledger.all_peak());
  out.Field("bytes_at_end", most->ledger.own());
  out.Key("gpus");
  out.Open("[");
  for (const auto& gpu : device.gpus) {
    if (gpu->ledger.own_peak() == 0) continue;
    out.Key("");
    out.Open("{");
    out.Field("index", gpu->index);
    out.Field("number", device.config.visible[static_cast<std::size_t>(gpu->index)]);
    out.Field("peak_bytes", gpu->ledger.own_peak());
    out.Field("device_peak_bytes", gpu->ledger.all_peak());
    out.Field("nccl_bytes", gpu->nccl_peak.load(std::memory_order_relaxed));
    out.Close("}");
  }
  out.Close("]");
}

void Write(Writer& out, const Device& device, std::string_view end, int signal) {
  const Statistics& all = device.statistics;
  out.Open("{");
  out.Field("format", std::string_view("ebbtide.phantom"));
  out.Field("version", std::int64_t{1});
  out.Field("pid", std::int64_t{getpid()});
  out.Field("parent_pid", std::int64_t{getppid()});
  out.Field("command", device.command);
  out.Field("end", end);
  if (signal != 0) out.Field("signal", std::int64_t{signal});
  out.Field("gpu", device.profile.name);
  out.Field("capacity_bytes", device.profile.memory);
  out.Field("context_bytes", device.contexts.bytes_of_one());
  WriteGpus(out, device);
  out.Field("pinned_peak_bytes", device.host_memory.pinned_peak());
  out.Field("virtual_ns", device.host.now());
  out.Field("allocations", all.allocations);
  out.Field("frees", all.frees);
  out.Field("out_of_memory", all.out_of_memory);
  out.Field("copies_to_device", all.copies_to_device);
  out.Field("copies_to_host", all.copies_to_host);
  out.Field("copies_on_device", all.copies_on_device);
  out.Field("copies_on_host", all.copies_on_host);
  out.Field("fills", all.fills);
  out.Field("host_reads", all.host_reads);
  out.Field("empty_host_reads", all.empty_host_reads);
  out.Field("launches", all.launches);
  out.Field("undeclared_launches", all.undeclared_launches);
  out.Field("host_functions", all.host_functions);
  out.Field("streams", device.streams.created());
  out.Field("faults_injected", FaultsInjected());
  WriteRaces(out, device, signal != 0);
  WriteCalls(out, "not_modelled", &CallRecord::not_modelled);
  WriteCalls(out, "calls", &CallRecord::count);
  out.Close("}\n");
}

// "<folder>/<pid>.json<suffix>"
void BuildPath(char (&path)[4096], const std::string& folder, const char* suffix) {
  snprintf(path, sizeof(path), "%s/%d.json%s", folder.c_str(), static_cast<int>(getpid()), suffix);
}

}  // namespace

void WriteStatistics(Device& device, std::string_view end, int signal) {
  static std::atomic_flag written = ATOMIC_FLAG_INIT;
  if (device.config.output.empty() || (end == kSoFar ? written.test() : written.test_and_set())) return;
  char path[4096], temporary[4096];
  BuildPath(path, device.config.output, "");
  BuildPath(temporary, device.config.output, ".new");
  int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return;
  {
    Writer out(fd);
    Write(out, device, end, signal);
  }
  close(fd);
  rename(temporary, path);
}

}  // namespace ebbtide::phantom
