// The backends of a world's groups, so that abort() ends all of them.
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
  // Returns the name of a group that is being made: "dp/0,1/0", i.e. the axis, the ranks, and how
  // many groups of these were made before. The name is equal on all members and unique in the
  // world.
  std::string next_name(const Membership& membership);
  // Registers a backend for abort(). If abort() was called before, aborts it at once.
  void add(const std::shared_ptr<Backend>& backend);
  // Aborts all registered backends, and those registered later. May be called from any thread.
  void abort(const std::string& why);

 private:
  std::map<std::string, int> made_;  // number of groups made, by axis and ranks
  std::mutex mutex_;                 // guards backends_ and aborted_
  std::vector<std::weak_ptr<Backend>> backends_;
  std::string aborted_;
};

}  // namespace colossal::comm
