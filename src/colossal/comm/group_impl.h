// The state behind Group (group.h), and the functions with which the implementations of World make
// groups.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "colossal/comm/backend.h"
#include "colossal/comm/group.h"
#include "colossal/comm/work_queue.h"
#include "colossal/comm/world.h"

namespace colossal::comm {

class DeferredCall;

// The state that all copies of a rank's Group share.
struct Group::Impl : std::enable_shared_from_this<Group::Impl> {
  Impl() = default;
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Membership membership;
  std::shared_ptr<Ledger> ledger;
  const char* backend_name = "single";
  std::shared_ptr<Backend> backend;  // null in a group of one rank
  // Receives that are launched when they are waited for, or before the next call (group.cpp).
  std::deque<std::shared_ptr<DeferredCall>> deferred;
  WorkQueue queue;  // runs the calls; destroyed first, because queued calls use the backend
};

// Returns the membership of the rank world.rank() in the group of the global ranks `ranks`. axis:
// the group's name, which the result gets (Membership::axis). Throws InternalError if `ranks` does
// not contain this rank, contains a rank twice, or contains a rank outside the world.
Membership membership_of(const World& world, const std::string& axis,
                         const std::vector<int>& ranks);

// Makes a Group from its parts. backend: the name that Group::backend() of the result returns, a
// string literal. ledger: books the group's calls. make_backend: connects this rank to the group's
// other ranks. make_group() calls it if the group has two ranks or more.
Group make_group(const char* backend, std::shared_ptr<Ledger> ledger, const Membership& membership,
                 const std::function<std::shared_ptr<Backend>()>& make_backend);

}  // namespace colossal::comm
