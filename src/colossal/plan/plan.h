// Finds what a run will cost before it starts, by dry runs of the ranks that differ: bytes sent,
// memory, work and partners of each rank in a step.
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
  int64_t parameters = 0;                     // elements held
  double flops = 0;                           // of products and attention
  std::map<comm::Ledger::Key, int64_t> sent;  // by the law
  memory::BytesByKind memory_at_peak;
  int64_t activation_bytes = 0;             // kept by a micro-batch's forward pass, at most
  memory::TierPools::Traffic tier_traffic;  // with tiers other than the device
  std::map<memory::Tier, memory::BytesByKind> at_rest;  // in each of them, at its peak
  // How many distinct ranks it exchanges bytes with, by axis.
  std::map<std::string, int> partners;
  int all_partners = 0;       // over all axes
  int training_partners = 0;  // ... leaving out control and metrics, which bring all ranks together

  int64_t bytes_sent() const;  // the metric's sum over axes
  int64_t memory_peak_bytes() const { return memory_at_peak.total(); }
  int64_t bytes_at_rest(memory::Tier tier) const { return at_rest.at(tier).total(); }
  int64_t tier_bytes(memory::Tier tier) const;  // to and from it
};

// Makes the plan of a rank from its recording. A middle micro-batch counts for all those that it
// stands for.
RankPlan plan_of(const RecordedStep& step, int rank);

struct Plan {
  std::vector<RankPlan> ranks;  // those recorded
  double seconds = 0;           // that this took

  const RankPlan& fullest_rank() const;  // the first of those whose tensors take most
};

// Returns ranks among which every figure reaches its largest value over all ranks. Where parts are
// uneven, the first rank of an axis has the largest and the last the smallest. So these two are
// taken along dp, and along sp and tp if heads and tokens divide evenly; else all are, as along pp.
std::vector<int> ranks_to_record(const Job& job);

// Makes the plan of a job. Records ranks on all cores at once.
Plan make_plan(const Job& job);

// Returns the plan of the first of the ranks whose tensors take most. Records no more ranks than it
// must.
RankPlan fullest_rank(const Job& job);

}  // namespace colossal::plan
