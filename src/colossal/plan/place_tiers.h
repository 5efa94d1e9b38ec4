// Decides memory.offload_* = "auto", with dry runs of a step: in which tiers (device, host, NVMe)
// each kind of memory is stored, so that the job's ranks fit their budgets. Kinds are optimizer
// state, gradients, activations and parameters. Used by fit_memory().
#pragma once

#include "colossal/job/job.h"
#include "colossal/plan/plan.h"

namespace colossal::plan {

// By how many bytes a rank exceeds each of its budgets; 0 if it does not exceed the budget, or if
// there is no such budget.
struct Overrun {
  int64_t device = 0;    // peak on the device minus job.device_budget
  int64_t host = 0;      // bytes stored on the host minus job.host_budget
  int64_t together = 0;  // (peak on the device + bytes on the host) minus job.memory_budget

  int64_t sum() const { return device + host + together; }
};
// Returns the overrun of the rank with this plan. job: has the budgets.
Overrun overrun_of(const Job& job, const RankPlan& plan);
// Whether the rank with this plan exceeds none of the job's budgets.
inline bool fits_budgets(const Job& job, const RankPlan& plan) {
  return overrun_of(job, plan).sum() == 0;
}

struct TierPlan {
  memory::Tiers tiers;  // the tiers of each kind of memory
  RankPlan plan;        // of the rank with the largest peak memory, with these tiers
};

// Decides the tiers of the kinds in job.undecided_tiers; only these kinds are moved. All other
// kinds, the fixed kinds, keep their tiers in job.tiers. If everything fits on the device, nothing
// is offloaded. Otherwise kinds are moved to the host, one after the other, until two conditions
// hold: the peak on the device fits job.device_budget; and this peak plus the bytes on the host of
// the fixed kinds fits job.memory_budget. The bytes on the host of the moved kinds do not count
// yet, because they may move on to NVMe. The next kind is always the kind whose move adds the least
// traffic between tiers per byte that it frees at the device's peak. A kind whose move frees
// nothing is not moved. The last kind is moved only in part, if a part suffices.
//
// If a budget is then still exceeded and job.tiers.nvme_path is set, kinds are moved from the host
// to NVMe in the same way, until no budget is exceeded. The next kind is now the kind whose move
// adds the least traffic per byte that it frees on the host. If the ranks do not fit even so,
// returns the last placement tried: check TierPlan::plan with fits_budgets().
TierPlan place_tiers(const Job& job);

}  // namespace colossal::plan
