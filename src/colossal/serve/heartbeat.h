// Finds a rank that hangs long before the timeout of its groups passes, which is made for steps
// that may take long. The first rank asks all others for a sign of life, and a thread of each
// answers, however long its work takes. So the first rank notices one that does not answer, and
// the others notice that nobody asks. Their messages are the host's, over TCP where ranks compute
// on GPUs: they wait for no device.
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

  // How long the others wait for a beat. Where one of them hangs, the first rank waits for its
  // answer before it asks again, and is not to be taken for the one that hangs.
  std::chrono::milliseconds patience() const { return timeout + 2 * interval; }
};

// At the first rank: asks all others. While it lives, an answer that does not come ends every
// collective of the world with a CommError that names the rank. Law: at each beat 8 bytes to each
// of the others; from each as much. Collective with HeartbeatAnswers.
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

  comm::World& world_;
  comm::Group channel_;
  HeartbeatOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

// At the others: answers until the first rank ends, or is lost. Ends every collective of the world
// with a CommError that names the first rank when it asks nothing for as long as `patience`.
class HeartbeatAnswers {
 public:
  HeartbeatAnswers(const ParallelContext& ranks, std::chrono::milliseconds patience);
  ~HeartbeatAnswers();
  HeartbeatAnswers(const HeartbeatAnswers&) = delete;
  HeartbeatAnswers& operator=(const HeartbeatAnswers&) = delete;

 private:
  void run();

  comm::World& world_;
  comm::Group channel_;
  std::chrono::milliseconds patience_;
  std::thread thread_;
};

}  // namespace colossal::serve
