// Finds a rank that hangs long before the timeout of its groups passes, which is made for steps
// that may take long: a thread of each rank answers the first one, however long its work takes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "colossal/mesh/parallel_context.h"

namespace colossal::serve {

struct HeartbeatOptions {
  std::chrono::milliseconds interval{1000};
  // How long a rank may leave a beat unanswered before it counts as lost; 0: nobody asks.
  std::chrono::milliseconds timeout{10'000};
};

// At the first rank: asks all others. While it lives, an answer that does not come ends every
// collective of the world with a CommError that names the rank. Law: at each beat 8 bytes to each
// of the others; from each as much.
class Heartbeat {
 public:
  Heartbeat(const ParallelContext& ranks, const HeartbeatOptions& options);
  ~Heartbeat();  // lets the others go
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  void run();
  // Whether all have answered.
  bool ask(bool is_last);

  const ParallelContext& ranks_;
  HeartbeatOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

// At the others: answers until the first rank ends, or is lost.
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
