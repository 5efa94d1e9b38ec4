// Detects a hung rank long before the timeout of the communication groups, which must allow for
// long steps. The first rank sends heartbeats to all other ranks; a thread of each rank answers
// them, even while a step runs. The first rank notices a rank that does not answer; the other ranks
// notice that no heartbeat comes. Heartbeats use World::host_group(), whose messages wait for no
// device.
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

  // How long the other ranks wait for the next heartbeat. Longer than `timeout`: if one rank hangs,
  // the first rank waits `timeout` for that rank's answer before it sends the next heartbeat, and
  // the remaining ranks must not take the first rank for hung meanwhile.
  std::chrono::milliseconds patience() const { return timeout + 2 * interval; }
};

// Runs on the first rank: a thread sends heartbeats to all other ranks. If an answer is late,
// aborts the world: its collectives throw CommError, which names the late rank. Law: per heartbeat
// 8 bytes to each other rank and 8 bytes back. Its constructor is collective with that of
// HeartbeatAnswers on the other ranks.
class Heartbeat {
 public:
  Heartbeat(const ParallelContext& ranks, const HeartbeatOptions& options);
  ~Heartbeat();  // sends a last heartbeat, which ends HeartbeatAnswers on the other ranks
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  void run();
  // Sends one heartbeat to every rank. Returns whether all ranks answered in time; aborts the world
  // if not.
  bool ask(bool is_last);

  comm::World& world_;
  comm::Group channel_;
  HeartbeatOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

// Runs on the other ranks: a thread answers heartbeats until the last one, or until a rank is lost.
// If no heartbeat comes for `patience`, aborts the world with an error that names the first rank.
class HeartbeatAnswers {
 public:
  HeartbeatAnswers(const ParallelContext& ranks, std::chrono::milliseconds patience);
  ~HeartbeatAnswers();  // waits for the last heartbeat, or until the world is aborted
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
