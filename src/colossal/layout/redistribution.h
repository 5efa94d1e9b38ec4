// Plans the conversion of a distributed tensor from one layout to another: which local steps and
// collectives, and how many elements they send. redistribute() (redistribute.h) executes a plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/layout/layout.h"

namespace colossal {

// One step of a plan.
struct RedistributionStep {
  // layout.h defines the states of a tensor along an axis: sharded, replicated, or partial (the
  // tensor is the sum of one term on each rank). A step changes the states along `axes`; a slice
  // may change them along any axes.
  enum class Kind {
    // Local steps.
    slice,  // from replicated to sharded, or from one sharding to another, if each rank already has
            // all elements that it holds in `result`: it keeps only these
    spread,  // to partial: each rank's term has the elements that the rank holds and zeros
             // elsewhere; of ranks with the same elements, only the first one's term has them
    // Steps with one collective, in the group of the ranks that differ only along `axes`.
    all_gather,      // from sharded to replicated
    all_to_all,      // from one sharding to another: each rank receives the elements that it lacks
    reduce_scatter,  // from partial to sharded
    all_reduce,      // from partial to replicated
  };
  Kind kind = Kind::slice;
  AxisSet axes;   // empty for slice
  Layout result;  // layout after the step
  // [ranks]: number of elements that each rank sends, by the law of the collective (docs/laws.md);
  // zeros for local steps.
  std::vector<int64_t> elements_sent;
};

// The sequence of steps that converts a tensor from one layout to another with the fewest elements
// sent, summed over all ranks. Among sequences that send equally many, it has the fewest
// collectives, then the fewest steps. All ranks compute the same plan.
//
// The layouts between steps have the segments of `to`. In these layouts, an axis is partial or
// sharded in zigzag only if it is so in `from` or `to`.
//
// The cost is the sum over ranks and not the maximum. With the maximum, a plan could make two
// exchanges instead of one only so that the busiest rank sends a little less.
class RedistributionPlan {
 public:
  // The layouts may have different segments. Throws InternalError if they differ in the shape of
  // the global tensor or in the grid.
  RedistributionPlan(const Layout& from, const Layout& to);

  const Layout& from() const { return from_; }
  const Layout& to() const { return to_; }
  // Returns the steps in order; empty if `from` and `to` are equal.
  const std::vector<RedistributionStep>& steps() const { return steps_; }

  int num_calls() const;                  // number of steps that are collectives
  int64_t elements_sent(int rank) const;  // number of elements that one rank sends in all steps
  int64_t elements_sent() const;          // number of elements that all ranks together send

 private:
  Layout from_;
  Layout to_;
  std::vector<RedistributionStep> steps_;
};

// Returns a description for messages, such as "reduce_scatter over tp, all_gather over tp";
// "nothing" if there are no steps.
std::string describe(const RedistributionPlan& plan);

}  // namespace colossal
