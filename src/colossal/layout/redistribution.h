// Plans the redistribution of a tensor from one layout to another: which collectives, and at what
// cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/layout/layout.h"

namespace colossal {

// One step of a plan. A step over several axes is one call in the group of all ranks along them.
struct RedistributionStep {
  enum class Kind {
    // Local steps:
    slice,   // each rank keeps a part of its elements
    spread,  // -> partial: a rank's term is its elements, zeros elsewhere; only the first of
             // several copies counts, others become zeros
    // One collective call over `axes`:
    all_gather,      // sharded -> replicated
    all_to_all,      // sharded -> sharded differently: each rank receives the elements it lacks
    reduce_scatter,  // partial -> sharded
    all_reduce,      // partial -> replicated
  };
  Kind kind = Kind::slice;
  AxisSet axes;
  Layout result;
  std::vector<int64_t> elements_sent;  // indexed by rank: the law of the call (docs/laws.md)
};

// The chain of steps in which all ranks together send the fewest bytes; among equal chains the one
// with the fewest calls, then with the fewest steps. All ranks compute the same chain.
//
// The cost is the total over all ranks, not the maximum over ranks: the total that ranks send is
// the total that they lack, so that one exchange never costs more than two. With the maximum,
// chains would take detours through layouts that happen to even out a part that is one row larger
// than the others.
class RedistributionPlan {
 public:
  // Both layouts must describe the same global tensor over the same grid. Their segments may
  // differ.
  RedistributionPlan(const Layout& from, const Layout& to);

  const Layout& from() const { return from_; }
  const Layout& to() const { return to_; }
  const std::vector<RedistributionStep>& steps() const { return steps_; }

  int num_calls() const;
  int64_t elements_sent(int rank) const;
  int64_t elements_sent() const;  // total of all ranks

 private:
  Layout from_;
  Layout to_;
  std::vector<RedistributionStep> steps_;
};

// For messages, such as "reduce_scatter over tp, all_gather over tp", or "nothing".
std::string describe(const RedistributionPlan& plan);

}  // namespace colossal
