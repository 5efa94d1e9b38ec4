// Detects a hung rank long before the timeout of its communication groups, which must allow for
// long steps: a thread of each rank answers the first rank's heartbeats, even while a step runs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "colossal/mesh/parallel_context.h"

namespace colossal::serve {

struct HeartbeatOptions {
  std::chrono::milliseconds interval{1000};
  // A rank that does not answer a heartbeat within this time counts as lost; 0: no heartbeats.
  std::chrono::milliseconds timeout{10'000};
};

// Runs on the first rank: sends heartbeats to all other ranks from a thread. If an answer is late,
// aborts every collective of the world with a CommError that names the rank. Law: per heartbeat 8
// bytes to each other rank and 8 bytes back.
class Heartbeat {
 public:
  Heartbeat(const ParallelContext& ranks, const HeartbeatOptions& options);
  ~Heartbeat();  // sends a last heartbeat, which ends HeartbeatAnswers on the other ranks
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  void run();
  // Sends one heartbeat. Returns whether all ranks answered; aborts the world if not.
  bool ask(bool is_last);

  const ParallelContext& ranks_;
  HeartbeatOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

// Runs on the other ranks: answers heartbeats from a thread until the last one, or until a rank is
// lost.
class HeartbeatAnswers {
 public:
  explicit HeartbeatAnswers(const ParallelContext& ranks);
  ~HeartbeatAnswers();
  HeartbeatAnswers(const HeartbeatAnswers&) = delete;
  HeartbeatAnswers& operator=(const HeartbeatAnswers&) = delete;

 private:
  std::thread thread_;
};

}  // namespace colossal::serve
