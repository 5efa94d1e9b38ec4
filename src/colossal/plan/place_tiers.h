// Decides by dry runs which part of a job's memory rests on which tier, so that its ranks fit their
// budgets: memory.offload_* = "auto".
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

// Returns the job's tiers, with those of job.tiers_open decided. Nothing moves if all fits the
// device. Else kinds leave it in the order of least traffic for each byte that they free at the
// peak, the last one only as far as it must. They go to the host; what it has no room for goes on
// to NVMe in the same way, if there is a folder. If that does not fit either, the plan comes as
// close as it can.
TierPlan place_tiers(const Job& job);

}  // namespace colossal::plan
