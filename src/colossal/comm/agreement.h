// Checks at the start of a job that all ranks were started with the same settings. connect()
// (world.h) calls publish_settings(), then meet_all() (store.h), then require_agreement().
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "colossal/comm/store.h"
#include "colossal/comm/world.h"

namespace colossal::comm {

// Returns an error message such as "rank 3 has train.seed = 1, rank 0 has 0, and data.train differ
// too: all ranks must be started with the same program, settings and data". It gives both values of
// the first setting that differs, then the names of all other settings that differ. A setting that
// a rank does not have is given as "none". Returns "" if none differs; the order of the settings
// does not matter. of_rank: the settings of rank `rank`.
std::string describe_difference(const Settings& of_rank_0, int rank, const Settings& of_rank);

// Writes the settings of rank `rank` to the store, where require_agreement() reads them. Returns a
// digest that does not depend on the order of the settings. The caller passes the digest to
// meet_all() as Arrival::settings.
std::string publish_settings(c10d::Store& store, int rank, const Settings& settings);

// Compares the digests in `arrivals`, the result of meet_all(). Does nothing if all are equal. If
// any rank's digest differs from rank 0's, throws a ConfigError on every rank, with
// describe_difference() for the first rank that differs. If rank 0 serves the store, the store ends
// with rank 0's process. So rank 0, before it throws, waits at most `timeout` until all other ranks
// have read the settings.
void require_agreement(c10d::Store& store, const Rendezvous& rendezvous,
                       const std::vector<Arrival>& arrivals, std::chrono::milliseconds timeout);

// Throws ConfigError with the message `why`, on all ranks that call it. Rank 0 serves the store, so
// it first waits up to `timeout` for the other ranks to call this.
[[noreturn]] void refuse_together(c10d::Store& store, const Rendezvous& rendezvous,
                                  const std::string& why, std::chrono::milliseconds timeout);

}  // namespace colossal::comm
