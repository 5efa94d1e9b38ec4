// Which part of what a job keeps rests on which tier, so that its ranks fit their budgets:
// memory.offload_* = "auto". By dry runs.
#pragma once

#include "colossal/booster/job.h"
#include "colossal/plan/plan.h"

namespace colossal::plan {

// Bytes that a rank takes beyond its budgets; 0: it fits.
struct Overrun {
  int64_t device = 0;    // beyond job.device_budget
  int64_t host = 0;      // at rest on the host, beyond job.host_budget
  int64_t together = 0;  // both, beyond job.memory_budget

  int64_t sum() const { return device + host + together; }
};
Overrun overrun_of(const Job& job, const RankPlan& plan);
inline bool fits_budgets(const Job& job, const RankPlan& plan) {
  return overrun_of(job, plan).sum() == 0;
}

struct TierPlan {
  memory::Tiers tiers;
  RankPlan plan;  // of the fullest rank
};

// The job's tiers, with those of job.tiers_open found: nothing moves where all fits. Off the device
// goes what costs the least traffic for each byte that it frees at the peak, kind by kind, of the
// last kind no more than must; to the host, and from there in the same way to NVMe, where there is
// a folder, what the host has no room for. Where that does not fit either, as far as it goes.
TierPlan place_tiers(const Job& job);

}  // namespace colossal::plan
