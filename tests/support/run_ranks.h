// Ranks as threads of the test: each runs `body` in a world of its own.
//
//   run_ranks(4, [](comm::World& world) { ... });
//
// A rank that throws aborts its world, so that the others end too. Then the first exception is
// thrown here, as the same kind of error with the rank in front of the message; a CommError only if
// no rank threw anything else, since it mostly is the consequence.
//
// A failure in a rank says of which case it is where TRACED_CASE stands in place of SCOPED_TRACE,
// which holds for one thread only.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "colossal/comm/world.h"

namespace colossal::test {

using RankBody = std::function<void(comm::World& world)>;

inline constexpr std::chrono::seconds kRankTimeout{60};

// Through memory: for nearly all tests.
void run_ranks(int ranks, const RankBody& body, std::chrono::milliseconds timeout = kRankTimeout);
// As ranks on GPUs do that communicate through host memory (comm/staged.h), though the "GPU" is the
// CPU.
void run_staged_ranks(int ranks, const RankBody& body,
                      std::chrono::milliseconds timeout = kRankTimeout);
// As real processes do: over "gloo" (TCP on loopback), "shm" (memory that they share) or "nccl" (a
// GPU for each).
void run_ranks_over(const std::string& backend, int ranks, const RankBody& body,
                    std::chrono::milliseconds timeout = kRankTimeout);
// As processes on several hosts do: rank i is on hosts[i].
void run_ranks_on(const std::vector<std::string>& hosts, const RankBody& body,
                  std::chrono::milliseconds timeout = kRankTimeout);

// A socket that listens on a free port of 127.0.0.1: what a launcher hands to rank 0.
struct Listener {
  int fd = -1;
  int port = 0;
};
Listener listen_on_loopback();
comm::Rendezvous rendezvous_at(const Listener& listener, int rank, int ranks);

// While it lives, failures of this thread and of ranks that it runs say `what`.
class TracedCase {
 public:
  TracedCase(const char* file, int line, const testing::Message& what);
  ~TracedCase();
  TracedCase(const TracedCase&) = delete;
  TracedCase& operator=(const TracedCase&) = delete;

 private:
  testing::ScopedTrace trace_;
};

#define TRACED_CASE(what)                                                    \
  const ::colossal::test::TracedCase GTEST_CONCAT_TOKEN_(traced_, __LINE__)( \
      __FILE__, __LINE__, ::testing::Message() << (what))

}  // namespace colossal::test
