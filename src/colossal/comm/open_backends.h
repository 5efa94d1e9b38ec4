// The backends of a world's groups, and how they end together.
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
  // Of a group that is being made: the same on all its members, another for each: "dp/0,1/0".
  std::string next_name(const Membership& membership);
  // From now on abort() ends it, and at once where that has come before.
  void add(const std::shared_ptr<Backend>& backend);
  // From any thread. Backends to come end too.
  void abort(const std::string& why);

 private:
  std::map<std::string, int> made_;  // groups by axis and ranks
  std::mutex mutex_;                 // of the two below
  std::vector<std::weak_ptr<Backend>> backends_;
  std::string aborted_;
};

}  // namespace colossal::comm
