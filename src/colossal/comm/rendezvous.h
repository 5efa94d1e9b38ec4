// How the processes of a job find each other: rank 0, or the launcher of the ranks, serves a TCP
// store.
#pragma once

#include <string>

namespace colossal::comm {

struct Rendezvous {
  int rank = 0;
  int size = 1;
  std::string address = "127.0.0.1";  // of the store
  int port = 0;
  int listen_fd = -1;            // on rank 0: a bound, listening socket for the store; -1: none
  bool store_is_served = false;  // true: another process (torchrun's agent) serves the store
  std::string interface_address = "127.0.0.1";  // this rank's data sockets bind to it
  std::string prefix = "";  // of the store's keys; distinct for each attempt of a job
};

}  // namespace colossal::comm
