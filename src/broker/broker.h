// Shares of one GPU's memory among processes that know nothing of each other, without a daemon.
//
// A folder for each GPU holds a file for each program, its *ticket*, numbered in the order in which they came. Whoever
// has a share, or waits for one, holds a lock (flock) on its ticket; so do the processes that it starts, which inherit
// the descriptor. The kernel gives the lock back when the last of them has ended, however it ended: a ticket that
// nobody locks is void, and who finds it removes it. All that is read and changed here is read and changed under one
// other lock of the folder, which nobody holds for longer than it takes to read the tickets.
//
//   Never over the card. A ticket is granted only where the granted ones and its own bytes fit.
//   None starves. Only the oldest ticket that is not granted may be granted; those behind it wait, though they would
//   fit. No share is lost. A share is but a ticket whose lock is held.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace ebbtide::broker {

// A program that has a share or waits for one.
struct Holder {
  std::int64_t number = 0;  // in the order of arrival
  std::int64_t pid = 0;     // of the process that asked
  Bytes bytes = 0;
  bool granted = false;
  std::string command;
};

// The state of a GPU as one who waits sees it.
struct Moment {
  Bytes capacity = 0;
  std::vector<Holder> before;  // all that have a share, and those that came before and wait

  Bytes granted() const;
};

// A place in the queue of a GPU, and then a share of it. Destroyed, it gives it back, unless processes that were
// started meanwhile still hold it.
class Ticket {
 public:
  // Joins the queue of the GPU that `folder` stands for, which is made where it is missing. `bytes` must be at most the
  // capacity, as it would wait for ever else.
  static Result<Ticket> Join(const std::string& folder, Bytes bytes, const std::string& command);
  Ticket(Ticket&& other) noexcept;
  Ticket& operator=(Ticket&&) = delete;
  ~Ticket();

  // Takes the share if it is this ticket's turn and there is room. What stands in the way, else.
  struct Answer {
    bool granted = false;
    Moment moment;
  };
  Result<Answer> Try(Bytes capacity);

  // Tries until it is granted. `waits` is told what stands in the way, at first and whenever that changes; `stop` is
  // asked often, and ends it with ErrorKind::kStopped.
  Status Wait(Bytes capacity, const std::function<void(const Moment&)>& waits, const std::function<bool()>& stop);

  std::int64_t number() const { return number_; }

 private:
  Ticket(std::string folder, std::int64_t number, int file, Bytes bytes, std::string command)
      : folder_(std::move(folder)), number_(number), file_(file), bytes_(bytes), command_(std::move(command)) {}

  std::string folder_;
  std::int64_t number_ = 0;
  int file_ = -1;  // inherited by processes that are started
  Bytes bytes_ = 0;
  std::string command_;
};

// All that have a share or wait for one now, by number.
Result<std::vector<Holder>> Holders(const std::string& folder);

}  // namespace ebbtide::broker
