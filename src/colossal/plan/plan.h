// What a run will cost, before it starts: bytes sent, memory, work and partners of its ranks in a
// step, from dry runs of those ranks that differ.
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
  // Distinct ranks that it exchanges with, by axis.
  std::map<std::string, int> partners;
  int all_partners = 0;       // over all axes
  int training_partners = 0;  // ... leaving out control and metrics, which bring all ranks together

  int64_t bytes_sent() const;  // the metric's sum over axes
  int64_t memory_peak_bytes() const { return memory_at_peak.total(); }
  int64_t bytes_at_rest(memory::Tier tier) const { return at_rest.at(tier).total(); }
  int64_t tier_bytes(memory::Tier tier) const;  // to and from it
};

// From a recording; a middle micro-batch counts as often as it stands for.
RankPlan plan_of(const RecordedStep& step, int rank);

struct Plan {
  std::vector<RankPlan> ranks;  // those recorded
  double seconds = 0;           // that this took

  const RankPlan& fullest_rank() const;  // whose tensors take most, the first of equals
};

// Ranks among which every figure is the largest of all. Parts as even as they go are largest for
// the first rank of an axis and smallest for the last: these two along dp, all along pp, and along
// sp and tp these two where heads and tokens divide, all where they do not.
std::vector<int> ranks_to_record(const Job& job);

// Records on all cores at once.
Plan make_plan(const Job& job);

// The rank whose tensors take most, the first of equals; records no more ranks than it must.
RankPlan fullest_rank(const Job& job);

}  // namespace colossal::plan
