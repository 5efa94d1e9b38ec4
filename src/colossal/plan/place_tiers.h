// Decides by dry runs in which tier each part of a job's memory is stored, so that its ranks fit
// their budgets: memory.offload_* = "auto".
#pragma once

#include "colossal/booster/job.h"
#include "colossal/plan/plan.h"

namespace colossal::plan {

// Bytes by which a rank exceeds its budgets; 0: it fits.
struct Overrun {
  int64_t device = 0;    // above job.device_budget
  int64_t host = 0;      // stored on the host, above job.host_budget
  int64_t together = 0;  // sum of both, above job.memory_budget

  int64_t sum() const { return device + host + together; }
};
Overrun overrun_of(const Job& job, const RankPlan& plan);
inline bool fits_budgets(const Job& job, const RankPlan& plan) {
  return overrun_of(job, plan).sum() == 0;
}

struct TierPlan {
  memory::Tiers tiers;
  RankPlan plan;  // of the rank with the largest peak memory
};

// Returns the job's tiers, with those of job.tiers_open decided. Nothing is offloaded if everything
// fits on the device. Otherwise kinds are offloaded in the order of least traffic per byte freed at
// the peak, the last kind only as far as needed. They go to the host; what does not fit there goes
// to NVMe in the same order, if nvme_path is set. If that does not fit either, returns the plan
// that comes closest.
TierPlan place_tiers(const Job& job);

}  // namespace colossal::plan
