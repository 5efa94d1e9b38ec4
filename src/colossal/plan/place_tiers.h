// Decides memory.offload_* = "auto" by dry runs: in which tiers each kind of memory is stored, so
// that the job's ranks fit their budgets.
#pragma once

#include "colossal/booster/job.h"
#include "colossal/plan/plan.h"

namespace colossal::plan {

// Bytes by which a rank exceeds each of its budgets; 0 if it does not exceed the budget, or if
// there is none.
struct Overrun {
  int64_t device = 0;    // peak on the device, above job.device_budget
  int64_t host = 0;      // bytes stored on the host, above job.host_budget
  int64_t together = 0;  // that peak and these bytes together, above job.memory_budget

  int64_t sum() const { return device + host + together; }
};
Overrun overrun_of(const Job& job, const RankPlan& plan);
inline bool fits_budgets(const Job& job, const RankPlan& plan) {
  return overrun_of(job, plan).sum() == 0;
}

struct TierPlan {
  memory::Tiers tiers;
  RankPlan plan;  // with these tiers, of the rank with the largest peak memory
};

// Returns the job's tiers, with those of the kinds in job.undecided_tiers decided. Nothing is
// offloaded if everything fits on the device. Otherwise kinds are moved to the host until the
// device fits: the kind with the least traffic per byte freed at the peak comes first, and the last
// kind is moved only as far as needed. If the host then exceeds its budget and nvme_path is set,
// kinds are moved from the host to NVMe in the same way. If the ranks still do not fit, the last
// plan tried is returned: check with fits_budgets().
TierPlan place_tiers(const Job& job);

}  // namespace colossal::plan
