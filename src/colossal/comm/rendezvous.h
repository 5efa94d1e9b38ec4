// Where the processes of a job meet: a key-value store over TCP, which rank 0 or the launcher
// serves. cluster/launch_environment.h makes a Rendezvous; connect() (world.h) uses it.
#pragma once

#include <string>

namespace colossal::comm {

struct Rendezvous {
  int rank = 0;                       // this process's global rank
  int size = 1;                       // number of ranks of the job
  std::string address = "127.0.0.1";  // of the store: host name or IP address
  int port = 0;                       // of the store, 1 to 65535; must be set
  // On rank 0: a bound, listening socket for the store, which takes ownership. -1: rank 0 opens a
  // socket itself.
  int listen_fd = -1;
  // Whether a process that is no rank, such as torchrun's agent, serves the store. Otherwise rank 0
  // serves it.
  bool store_is_served = false;
  // Address of the network interface for this rank's connections to other ranks.
  std::string interface_address = "127.0.0.1";
  // Prefix of the store's keys. Jobs that share a store must have different prefixes; so must
  // attempts of one job that share a store.
  std::string prefix = "";
};

}  // namespace colossal::comm
