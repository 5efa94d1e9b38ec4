// The implementation behind a Group, and how worlds make one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "colossal/comm/backend.h"
#include "colossal/comm/group.h"
#include "colossal/comm/work_queue.h"
#include "colossal/comm/world.h"

namespace colossal::comm {

struct Group::Impl : std::enable_shared_from_this<Group::Impl> {
  Membership membership;
  std::shared_ptr<Ledger> ledger;
  const char* backend_name = "single";
  std::shared_ptr<Backend> backend;  // none in a group of one rank
  WorkQueue queue;                   // destroyed first: its calls use the backend
};

// Returns this rank's place among `ranks`. InternalError if it is not there, or if a rank is
// outside the world or there twice.
Membership membership_of(const World& world, const std::string& axis,
                         const std::vector<int>& ranks);

// Calls make_backend only for two ranks or more.
Group make_group(const char* backend, std::shared_ptr<Ledger> ledger, const Membership& membership,
                 const std::function<std::shared_ptr<Backend>()>& make_backend);

}  // namespace colossal::comm
