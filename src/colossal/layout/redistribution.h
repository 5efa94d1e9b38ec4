// Plans how a tensor moves from one layout to another: by which local steps and collectives, and
// how many elements these send.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/layout/layout.h"

namespace colossal {

// One step of a plan. A call over several axes is made once, in the group of the ranks that differ
// only along these axes.
struct RedistributionStep {
  enum class Kind {
    // Local steps:
    slice,   // each rank keeps a part of its elements
    spread,  // to partial: a rank's term has the elements that it holds, and zeros elsewhere. If
             // several ranks hold the same elements, the term of each but the first is zero
    // One collective call over `axes`:
    all_gather,      // sharded to replicated
    all_to_all,      // sharded to sharded in another way: each rank receives the elements it lacks
    reduce_scatter,  // partial to sharded
    all_reduce,      // partial to replicated
  };
  Kind kind = Kind::slice;
  AxisSet axes;   // empty for slice
  Layout result;  // layout after the step
  // By rank: how many elements it sends, by the law of the call (docs/laws.md). 0 for local steps.
  std::vector<int64_t> elements_sent;
};

// The chain of steps in which all ranks together send the fewest elements; among chains that send
// equally many, one with the fewest calls, and among those, one with the fewest steps. The layouts
// between two steps have the segments of `to`; an axis may be partial, or sharded in zigzag, in
// them only if it is so in `from` or `to`. All ranks compute the same chain.
//
// The cost of a chain is the total over all ranks, not the maximum. In a gather or an exchange, the
// total that ranks send is the total that they lack, so that one exchange never costs more than
// two. If the cost were the maximum over ranks, a chain could take a detour through another layout
// only because that layout gives the busiest rank one row less.
class RedistributionPlan {
 public:
  // The layouts may differ in their segments. Throws InternalError if they differ in the shape of
  // the global tensor or in the grid.
  RedistributionPlan(const Layout& from, const Layout& to);

  const Layout& from() const { return from_; }
  const Layout& to() const { return to_; }
  const std::vector<RedistributionStep>& steps() const { return steps_; }

  int num_calls() const;
  int64_t elements_sent(int rank) const;
  int64_t elements_sent() const;  // by all ranks together

 private:
  Layout from_;
  Layout to_;
  std::vector<RedistributionStep> steps_;
};

// Returns a text for messages, such as "reduce_scatter over tp, all_gather over tp", or "nothing".
std::string describe(const RedistributionPlan& plan);

}  // namespace colossal
