// Estimates what a step of a run costs, before the run starts: the bytes sent, memory, computation
// and communication partners of each rank. Ranks that cost the same are recorded only once, as a
// dry run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "colossal/booster/job.h"
#include "colossal/plan/recorded_step.h"

namespace colossal::plan {

// One rank in one step.
struct RankPlan {
  int rank = 0;
  int64_t parameters = 0;                     // number of elements held
  double flops = 0;                           // of matrix products and attention
  std::map<comm::Ledger::Key, int64_t> sent;  // bytes, computed by the laws
  memory::BytesByKind memory_at_peak;         // on the device
  // Bytes that the forward pass of a stage keeps for the backward pass of its micro-batch: the
  // maximum over stages and micro-batches.
  int64_t activation_bytes = 0;
  memory::TierPools::Traffic tier_traffic;  // to and from tiers other than the device
  // Bytes stored in each tier other than the device, at the tier's peak.
  std::map<memory::Tier, memory::BytesByKind> at_rest;
  // Number of distinct ranks with which this rank exchanges bytes, by axis.
  std::map<std::string, int> partners;
  int all_partners = 0;       // over all axes
  int training_partners = 0;  // without control and metrics, which connect all ranks

  int64_t bytes_sent() const;  // sum over all axes
  int64_t memory_peak_bytes() const { return memory_at_peak.total(); }
  int64_t bytes_at_rest(memory::Tier tier) const { return at_rest.at(tier).total(); }
  int64_t tier_bytes(memory::Tier tier) const;  // traffic to and from the tier
};

// Makes the plan of a rank from its recording. The micro-batch RecordedStep::middle counts
// RecordedStep::middle_repeats times.
RankPlan plan_of(const RecordedStep& step, int rank);

struct Plan {
  std::vector<RankPlan> ranks;  // of the recorded ranks
  double seconds = 0;           // time that making the plan took

  // Returns the plan with the largest peak memory; the first if several are equal.
  const RankPlan& fullest_rank() const;
};

// Returns the ranks that are recorded. Among them, every figure has its maximum over all ranks. If
// shards are uneven, the first rank of an axis has the largest shard and the last rank the
// smallest. Recorded are: along pp, all ranks; along dp, the first and the last; along sp, and
// along tp in mode 1d, the first and the last, or all if heads and tokens do not divide evenly;
// along the axes of tp in 2d, 2.5d and 3d, the first two and the last. If the rows of experts are
// known, each coordinate of pp adds the rank whose experts have most rows.
std::vector<int> ranks_to_record(const Job& job);

// Makes the plan of a job. Records several ranks in parallel, on all cores.
Plan make_plan(const Job& job);

// Returns make_plan(job).fullest_rank(), but records fewer ranks if it can.
RankPlan fullest_rank(const Job& job);

}  // namespace colossal::plan
