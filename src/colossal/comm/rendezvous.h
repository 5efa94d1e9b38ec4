// How real processes find each other: rank 0, or whoever launched the ranks, serves a TCP store.
#pragma once

#include <string>

namespace colossal::comm {

struct Rendezvous {
  int rank = 0;
  int size = 1;
  std::string address = "127.0.0.1";  // of the store
  int port = 0;
  int listen_fd = -1;  // rank 0: an already bound and listening socket for the store, or -1
  bool store_is_served = false;  // true: somebody else (torchrun's agent) serves the store
  std::string interface_address = "127.0.0.1";  // where this rank's data sockets bind
  std::string prefix = "";  // of the store's keys: distinct for each attempt of a job
};

}  // namespace colossal::comm
