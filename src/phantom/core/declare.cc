// Declared operations of each thread.
#include "phantom/core/declare.h"

#include <atomic>
#include <string>
#include <vector>

#include "phantom/core/api.h"
#include "phantom/core/device.h"

namespace ebbtide::phantom {
namespace {

struct Declared {
  std::string name, frame;
};

std::vector<Declared>& Operations() {
  thread_local std::vector<Declared> operations;
  return operations;
}

std::atomic<bool> queries_order{true};
thread_local int heeded_queries = 0;

}  // namespace

const char* CurrentFrame() { return Operations().empty() ? "" : Operations().back().frame.c_str(); }

const char* CurrentName() { return Operations().empty() ? "" : Operations().back().name.c_str(); }

bool QueriesOrder() { return queries_order.load(std::memory_order_relaxed) || heeded_queries > 0; }

bool InDeclaredOperation() { return !Operations().empty(); }

}  // namespace ebbtide::phantom

using namespace ebbtide::phantom;

void ebbtide_phantom_begin(const char* name, const char* frame) {
  Operations().push_back({name ? name : "", frame ? frame : ""});
}

void ebbtide_phantom_end() {
  if (!Operations().empty()) Operations().pop_back();
}

void ebbtide_phantom_declare(void* stream, const void* address, size_t bytes, int is_write, const char* name) {
  Device& device = TheDevice();
  std::shared_ptr<Stream> found = device.streams.Find(stream);
  if (!device.races || !found) return;
  Operation operation{.name = name ? name : CurrentName()};
  operation.accesses.push_back({reinterpret_cast<Address>(address), static_cast<ebbtide::Bytes>(bytes),
                                is_write ? AccessKind::kWrite : AccessKind::kRead});
  found->Submit(std::move(operation));
}

void ebbtide_phantom_reused(void* stream, const void* address, size_t bytes, const char* name) {
  ebbtide_phantom_declare(stream, address, bytes, 1, name);
}

void ebbtide_phantom_released(const void* address, size_t bytes) {
  if (RaceChecker* races = TheDevice().races.get())
    races->Released(reinterpret_cast<Address>(address), static_cast<ebbtide::Bytes>(bytes));
}

void ebbtide_phantom_set_queries_order(int yes) { queries_order = yes != 0; }

void ebbtide_phantom_query_begin() { ++heeded_queries; }

void ebbtide_phantom_query_end() { --heeded_queries; }

void ebbtide_phantom_kernel(void* stream, const char* name, int64_t nanoseconds) {
  if (std::shared_ptr<Stream> found = TheDevice().streams.Find(stream))
    found->Submit({.name = name ? name : "", .duration = nanoseconds});
}

void* ebbtide_phantom_content(const void* device_address, size_t bytes) {
  auto address = reinterpret_cast<Address>(device_address);
  std::optional<Range> range = TheDevice().space.Find(address);
  if (!range || !range->physical || !range->physical->content() || address + bytes > range->end()) return nullptr;
  return range->physical->content() + range->offset + (address - range->begin);
}

int ebbtide_phantom_checks_races() { return TheDevice().races != nullptr; }

int64_t ebbtide_phantom_race_count() { return TheDevice().races ? TheDevice().races->race_count() : 0; }

int64_t ebbtide_phantom_undeclared_launches() { return TheDevice().statistics.undeclared_launches; }

int64_t ebbtide_phantom_now() { return TheDevice().host.now(); }
