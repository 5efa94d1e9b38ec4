// The key-value store through which the ranks of a job find each other.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <exception>
#include <string>
#include <vector>

#include "colossal/comm/rendezvous.h"

namespace colossal::comm {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

// Returns the message of a LibTorch exception without its backtrace.
std::string reason_of(const std::exception& error);

// Opens the store. Rank 0 serves it on `rendezvous.address` only, unless store_is_served; other
// ranks connect to it. Throws CommError naming the address if that fails.
StorePointer open_store(const Rendezvous& rendezvous, std::chrono::milliseconds timeout);

// What a rank publishes when it arrives.
struct Arrival {
  std::string host;      // host_identity()
  int gpus = 0;          // num_gpus()
  std::string settings;  // digest from publish_settings()
};

// Publishes this rank's arrival, waits for all others, and returns all arrivals in rank order.
// Throws CommError naming the ranks that do not arrive within `timeout`.
std::vector<Arrival> meet_all(c10d::Store& store, const Rendezvous& rendezvous, const Arrival& own,
                              std::chrono::milliseconds timeout);

// Waits for a key and returns its value; empty if no rank sets the key within `timeout`. The
// store's own wait may sleep for seconds after the key is set.
std::string wait_for(c10d::Store& store, const std::string& key, std::chrono::milliseconds timeout);

}  // namespace colossal::comm
