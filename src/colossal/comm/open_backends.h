// The list of a world's open backends, with which World::abort() ends all of them; also gives each
// group the name under which its ranks find each other in the store.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "colossal/comm/backend.h"

namespace colossal::comm {

class OpenBackends {
 public:
  // Returns the name of a group that is being made, such as "dp/0,1/0": the axis, the global ranks,
  // and the number of earlier calls with this axis and these ranks. The name is equal on all
  // members and differs from the names of all other groups of the world. Not thread-safe.
  std::string next_name(const Membership& membership);
  // Registers a backend. If abort() was called before, aborts the backend at once. May be called
  // from any thread.
  void add(const std::shared_ptr<Backend>& backend);
  // Calls Backend::abort(why) on all registered backends that still exist, and on all that are
  // registered later. why: not empty. May be called from any thread.
  void abort(const std::string& why);

 private:
  std::map<std::string, int> made_;  // number of groups made, by axis and ranks
  std::mutex mutex_;                 // guards backends_ and aborted_
  std::vector<std::weak_ptr<Backend>> backends_;
  std::string aborted_;  // the reason of abort(); empty: not called
};

}  // namespace colossal::comm
