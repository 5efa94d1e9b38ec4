// Estimates the cost of a run before it starts, by dry runs of the ranks that differ: for each rank
// the bytes sent, memory, computation and communication partners of a step.
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
  std::map<comm::Ledger::Key, int64_t> sent;  // in bytes, by the laws
  memory::BytesByKind memory_at_peak;
  int64_t activation_bytes = 0;             // most bytes kept by a micro-batch's forward pass
  memory::TierPools::Traffic tier_traffic;  // to and from tiers other than the device
  std::map<memory::Tier, memory::BytesByKind>
      at_rest;  // bytes in each of these tiers, at the tier's peak
  // Number of distinct ranks with which this rank exchanges bytes, by axis.
  std::map<std::string, int> partners;
  int all_partners = 0;       // over all axes
  int training_partners = 0;  // without control and metrics, which connect all ranks

  int64_t bytes_sent() const;  // sum over all axes
  int64_t memory_peak_bytes() const { return memory_at_peak.total(); }
  int64_t bytes_at_rest(memory::Tier tier) const { return at_rest.at(tier).total(); }
  int64_t tier_bytes(memory::Tier tier) const;  // to and from the tier
};

// Makes the plan of a rank from its recording. The middle micro-batch counts as many times as it
// has repeats.
RankPlan plan_of(const RecordedStep& step, int rank);

struct Plan {
  std::vector<RankPlan> ranks;  // of the recorded ranks
  double seconds = 0;           // duration of making the plan

  const RankPlan& fullest_rank()
      const;  // with the largest peak memory; the first if several are equal
};

// Returns ranks among which every figure has its maximum over all ranks. If shards are uneven, the
// first rank of an axis has the largest shard and the last rank the smallest. So only the first and
// the last rank are recorded along dp, and along sp and tp if heads and tokens divide evenly;
// otherwise all ranks of sp and tp are. All ranks of pp are recorded. If the rows of experts are
// known, the ranks with most rows are added.
std::vector<int> ranks_to_record(const Job& job);

// Makes the plan of a job. Records several ranks in parallel, on all cores.
Plan make_plan(const Job& job);

// Returns the plan of the rank with the largest peak memory, the first if several are equal.
// Records as few ranks as possible.
RankPlan fullest_rank(const Job& job);

}  // namespace colossal::plan
