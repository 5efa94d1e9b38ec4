// Makes worlds whose groups use TCP: Colossal's own algorithms over Gloo's sends and receives.
#pragma once

#include <chrono>
#include <memory>

#include "colossal/comm/rendezvous.h"
#include "colossal/comm/store.h"
#include "colossal/comm/world.h"

namespace colossal::comm {

std::unique_ptr<World> gloo_world(const Rendezvous& rendezvous, StorePointer store,
                                  std::chrono::milliseconds timeout,
                                  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>());

}  // namespace colossal::comm
