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

// Returns the message of an exception of LibTorch without its backtrace.
std::string reason_of(const std::exception& error);

// Serves (rank 0, unless somebody else does) or reaches the store, which listens on
// `rendezvous.address` only. Throws CommError naming the address.
StorePointer open_store(const Rendezvous& rendezvous, std::chrono::milliseconds timeout);

// What a rank tells the others when it arrives.
struct Arrival {
  std::string host;
  int gpus = 0;
  std::string settings;  // the digest of publish_settings()
};

// Announces this rank, waits for all others, and returns all arrivals in rank order. Throws
// CommError naming the ranks that do not arrive.
std::vector<Arrival> meet_all(c10d::Store& store, const Rendezvous& rendezvous, const Arrival& own,
                              std::chrono::milliseconds timeout);

// Waits for a key and gives its value; empty if nobody sets it within `timeout`. Unlike the store's
// own wait, which may sleep for seconds after the key has come.
std::string wait_for(c10d::Store& store, const std::string& key, std::chrono::milliseconds timeout);

}  // namespace colossal::comm
