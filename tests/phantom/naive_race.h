// The definition of a race, executed: a program is a graph of operations and waits, one happens before another if there
// is a path, and every byte has a list of all that ever touched it. Quadratic, and shares nothing with src/phantom.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ebbtide::phantom {

class NaiveRaces {
 public:
  enum Kind { kRead, kWrite, kFree, kAllocate };
  struct Touch {
    int begin = 0, end = 0;  // bytes, of a small memory
    Kind kind = kRead;
  };
  static constexpr int kHost = -1;

  // `blocking`: waits for stream 0, the legacy one, and stream 0 for it.
  int AddStream(bool blocking) {
    streams_.push_back({blocking, -1});
    return static_cast<int>(streams_.size()) - 1;
  }

  void Operation(int stream, const std::string& name, const std::vector<Touch>& touches) {
    int node = Append(stream);
    for (const Touch& touch : touches) Use(node, stream, name, touch);
  }
  // Each returns a node that later waits can name.
  int Record(int stream) { return Append(stream); }
  void Wait(int stream, int node) { Edge(node, Append(stream)); }
  void HostWait(int node) {
    int now = NewNode();
    Edge(host_, now);
    Edge(node, now);
    host_ = now;
    Saw(now);
  }
  void HostSynchronize(int stream) { HostWait(Append(stream)); }
  void DeviceSynchronize() {
    for (std::size_t i = 0; i < streams_.size(); ++i) HostSynchronize(static_cast<int>(i));
  }
  // The host learns it without that being an order.
  void Saw(int node) {
    int now = NewNode();
    Edge(seen_, now);
    Edge(node, now);
    seen_ = now;
  }
  void HostFree(const std::string& name, int begin, int end) {
    int node = NewNode();
    Edge(host_, node);
    Use(node, kHost, name, {begin, end, kFree});
  }
  void Allocated(int begin, int end) {
    for (Past& past : all_)
      for (int byte = begin; byte < end; ++byte) past.bytes.erase(byte);
  }
  void Released(int begin, int end) {
    for (Past& past : all_)
      if (past.kind != kFree && (past.stream == kHost || Before(past.node, seen_)))
        for (int byte = begin; byte < end; ++byte) past.bytes.erase(byte);
  }

  // Names in the order of submission.
  const std::set<std::pair<std::string, std::string>>& races() const { return races_; }

 private:
  struct Stream {
    bool blocking = false;
    int last = -1;
  };
  struct Past {
    int node = 0, stream = 0;
    std::string name;
    Kind kind = kRead;
    std::set<int> bytes;  // that it is still remembered for
  };

  int NewNode() {
    before_.emplace_back();
    return static_cast<int>(before_.size()) - 1;
  }
  void Edge(int from, int to) {
    if (from >= 0 && from != to) before_[to].push_back(from);
  }
  int Append(int stream) {
    int node = NewNode();
    Edge(host_, node);
    Edge(streams_[stream].last, node);
    if (stream == 0) {
      for (const Stream& other : streams_)
        if (other.blocking) Edge(other.last, node);
    } else if (streams_[stream].blocking) {
      Edge(streams_[0].last, node);
    }
    return streams_[stream].last = node;
  }

  bool Before(int first, int second) const {
    std::vector<bool> seen(before_.size());
    std::vector<int> open{second};
    while (!open.empty()) {
      int node = open.back();
      open.pop_back();
      if (node == first) return true;
      if (node < 0 || seen[node]) continue;
      seen[node] = true;
      open.insert(open.end(), before_[node].begin(), before_[node].end());
    }
    return false;
  }
  bool Ordered(const Past& past, int node) const { return past.stream == kHost || Before(past.node, node); }

  // Whether `later` tells all about the byte that `earlier` did: what races with `earlier` races with it too.
  static bool StandsFor(const Past& later, Kind earlier) {
    if (later.kind == kRead) return earlier == kRead;
    return later.kind != kWrite || earlier != kFree;
  }

  void Use(int node, int stream, const std::string& name, const Touch& touch) {
    Past now{node, stream, name, touch.kind, {}};
    bool uses = touch.kind == kRead || touch.kind == kWrite;
    for (int byte = touch.begin; byte < touch.end; ++byte) {
      for (std::size_t i = 0; i < all_.size(); ++i) {
        const Past& past = all_[i];
        if (!past.bytes.contains(byte) || past.node == node) continue;
        bool gone = uses && past.kind == kFree;
        bool conflict = (past.kind != kRead || touch.kind != kRead) && !Ordered(past, node);
        if (!gone && !conflict) continue;
        bool implied = false;
        for (std::size_t j = i + 1; j < all_.size(); ++j)
          implied = implied || (all_[j].bytes.contains(byte) && StandsFor(all_[j], past.kind) &&
                                (past.stream == kHost || Before(past.node, all_[j].node)));
        if (!implied) races_.emplace(past.name, name);
      }
      now.bytes.insert(byte);
    }
    if (touch.kind == kAllocate)
      for (Past& past : all_)
        if (past.kind == kFree && Ordered(past, node))
          for (int byte = touch.begin; byte < touch.end; ++byte) past.bytes.erase(byte);
    all_.push_back(std::move(now));
  }

  std::vector<Stream> streams_;
  std::vector<std::vector<int>> before_;  // edges backwards
  int host_ = -1, seen_ = -1;
  std::vector<Past> all_;
  std::set<std::pair<std::string, std::string>> races_;
};

}  // namespace ebbtide::phantom
