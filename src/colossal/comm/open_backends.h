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
  // Returns the name of a group that is being made, "dp/0,1/0": equal on all its members, and
  // different from every other group's.
  std::string next_name(const Membership& membership);
  // From now on abort() ends this backend too; at once, if abort() was called before.
  void add(const std::shared_ptr<Backend>& backend);
  // Ends all backends, also those that are added later. May be called from any thread.
  void abort(const std::string& why);

 private:
  std::map<std::string, int> made_;  // groups by axis and ranks
  std::mutex mutex_;                 // of the two below
  std::vector<std::weak_ptr<Backend>> backends_;
  std::string aborted_;
};

}  // namespace colossal::comm
