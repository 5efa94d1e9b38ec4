// Plans how a tensor goes from one layout to another: by which collectives, and at what cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/layout/layout.h"

namespace colossal {

// One step of a plan. A step over several axes is one call in the group of all their ranks.
struct RedistributionStep {
  enum class Kind {
    // Nothing travels:
    slice,   // each rank keeps a part of what it has
    spread,  // -> partial: a rank's term is what it had, else zeros; of copies the first counts
    // One call of a collective over `axes`:
    all_gather,      // sharded -> replicated
    all_to_all,      // sharded -> sharded otherwise: every rank gets what it lacks, all at once
    reduce_scatter,  // partial -> sharded
    all_reduce,      // partial -> replicated
  };
  Kind kind = Kind::slice;
  AxisSet axes;
  Layout result;
  std::vector<int64_t> elements_sent;  // by rank: the law of the call (docs/laws.md)
};

// The chain of such steps in which all ranks together send the fewest bytes; of equal ones that of
// the fewest calls, then of the fewest steps. All ranks find the same chain.
//
// The bytes of all ranks count, not those of the busiest: what ranks send in all is what they lack
// in all, so that one exchange is never worse than two. By the busiest rank, chains would take
// detours through layouts that happen to even out a part that is a row larger than the others.
class RedistributionPlan {
 public:
  // Both layouts must be of the same global tensor over the same grid. Their segments may differ.
  RedistributionPlan(const Layout& from, const Layout& to);

  const Layout& from() const { return from_; }
  const Layout& to() const { return to_; }
  const std::vector<RedistributionStep>& steps() const { return steps_; }

  int num_calls() const;
  int64_t elements_sent(int rank) const;
  int64_t elements_sent() const;  // by all ranks

 private:
  Layout from_;
  Layout to_;
  std::vector<RedistributionStep> steps_;
};

// "reduce_scatter over tp, all_gather over tp"; "nothing".
std::string describe(const RedistributionPlan& plan);

}  // namespace colossal
