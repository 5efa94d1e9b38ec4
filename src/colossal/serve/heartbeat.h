// Heartbeats between the ranks of an inference engine. They detect a hung rank long before the
// timeout of the communication groups, which must allow for long steps. Used by EngineCore on the
// first rank and by follow() on the other ranks.
//
// The first rank sends heartbeats to all other ranks. A separate thread of each of these ranks
// answers, even while a step runs. The first rank detects that an answer is missing; the other
// ranks detect that no heartbeat arrives. Heartbeats use World::host_group(), whose messages do not
// wait for work on a device.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "colossal/mesh/parallel_context.h"

namespace colossal::serve {

struct HeartbeatOptions {
  std::chrono::milliseconds interval{1000};  // time between heartbeats
  // A rank that does not answer a heartbeat within this time counts as lost. 0: no heartbeats; then
  // neither Heartbeat nor HeartbeatResponder may be constructed.
  std::chrono::milliseconds timeout{10'000};

  // Returns how long the other ranks wait for the next heartbeat before they consider the first
  // rank hung. From one heartbeat to the next, at most timeout + interval passes: the first rank
  // waits up to `timeout` for all answers, and then `interval`. One more `interval` is a margin.
  std::chrono::milliseconds patience() const { return timeout + 2 * interval; }
};

// The first rank's side: a thread that sends heartbeats to all other ranks of the world. If an
// answer is late, the thread aborts the world: all collectives of the first rank then throw a
// CommError that names the late rank. Law: per heartbeat, 8 bytes to each other rank and 8 bytes
// back. Construction is collective: the other ranks construct HeartbeatResponder.
class Heartbeat {
 public:
  Heartbeat(const ParallelContext& ranks, const HeartbeatOptions& options);
  // Sends a last heartbeat, which ends HeartbeatResponder on the other ranks, and waits for the
  // answers, at most `timeout`. If the world is already aborted, sends nothing.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  void run();
  // Sends one heartbeat to each other rank. Returns whether all ranks answered in time; if not,
  // aborts the world. is_last: tells the other ranks to expect no further heartbeat.
  bool ask(bool is_last);

  comm::World& world_;
  comm::Group channel_;  // all ranks, for heartbeats only
  HeartbeatOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

// The side of all ranks except the first: a thread that answers heartbeats until the last
// heartbeat, or until a rank is lost. If no heartbeat arrives within `patience`
// (HeartbeatOptions::patience()), the thread aborts the world with an error that names the first
// rank.
class HeartbeatResponder {
 public:
  HeartbeatResponder(const ParallelContext& ranks, std::chrono::milliseconds patience);
  ~HeartbeatResponder();  // waits for the last heartbeat, or until the world is aborted
  HeartbeatResponder(const HeartbeatResponder&) = delete;
  HeartbeatResponder& operator=(const HeartbeatResponder&) = delete;

 private:
  void run();

  comm::World& world_;
  comm::Group channel_;
  std::chrono::milliseconds patience_;
  std::thread thread_;
};

}  // namespace colossal::serve
