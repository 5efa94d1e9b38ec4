// What the copies of a Work (group.h) share.
#pragma once

#include "colossal/comm/group.h"

namespace colossal::comm {

// Work's functions are those of its state. A subclass for each way in which calls run.
struct Work::State {
  State() = default;
  virtual ~State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  virtual void wait() = 0;
  virtual bool done() = 0;
};

}  // namespace colossal::comm
