// Makes the world (world.h) of a rank whose groups communicate over TCP. connect() uses it for
// backend "gloo", shm_world() for groups over several hosts, and nccl_world() for groups that send
// tensors from host memory.
#pragma once

#include <chrono>
#include <memory>

#include "colossal/comm/rendezvous.h"
#include "colossal/comm/store.h"
#include "colossal/comm/world.h"

namespace colossal::comm {

// Makes this rank's world. store: where groups exchange the addresses of their connections.
// timeout: time limit of each call, and for making a group. ledger: books the traffic of all
// groups; pass the ledger of another world to count both in one. Throws CommError if
// `rendezvous.interface_address` cannot be used. Ignores SIGPIPE in this process if SIGPIPE has its
// default action.
std::unique_ptr<World> gloo_world(const Rendezvous& rendezvous, StorePointer store,
                                  std::chrono::milliseconds timeout,
                                  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>());

}  // namespace colossal::comm
