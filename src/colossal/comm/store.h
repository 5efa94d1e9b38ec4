// The key-value store (torch.distributed's TCPStore) through which the ranks of a job find each
// other when connect() (world.h) starts.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <exception>
#include <string>
#include <vector>

#include "colossal/comm/rendezvous.h"

namespace colossal::comm {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

// Returns the message of an exception; without the backtrace, if it is LibTorch's c10::Error.
std::string reason_of(const std::exception& error);

// Opens the store. Unless `rendezvous.store_is_served`, rank 0 serves it at `rendezvous.address`
// and `rendezvous.port`, on no other interface. A rank that does not serve it connects to it. All
// keys get the prefix "colossal/" + `rendezvous.prefix`. timeout: for the connection, and default
// of the store's own waits. Throws CommError with the address if the store cannot be served or
// reached in time.
StorePointer open_store(const Rendezvous& rendezvous, std::chrono::milliseconds timeout);

// What each rank tells the others in meet_all().
struct Arrival {
  std::string host;      // host_identity() (shared_memory.h)
  int gpus = 0;          // num_gpus() (gpus.h)
  std::string settings;  // the result of publish_settings() (agreement.h)
};

// Publishes this rank's arrival `own`, waits for the arrivals of all ranks, and returns them in
// rank order. Throws CommError with the names of the ranks that do not arrive within `timeout`.
std::vector<Arrival> meet_all(c10d::Store& store, const Rendezvous& rendezvous, const Arrival& own,
                              std::chrono::milliseconds timeout);

// Waits for a key and returns its value; empty if no rank sets the key within `timeout`. Checks
// every millisecond, while the store's own wait() may sleep for seconds after the key was set.
std::string wait_for(c10d::Store& store, const std::string& key, std::chrono::milliseconds timeout);

}  // namespace colossal::comm
