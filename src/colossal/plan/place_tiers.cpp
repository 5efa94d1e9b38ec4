#include "colossal/plan/place_tiers.h"

#include <algorithm>
#include <future>
#include <optional>
#include <vector>

namespace colossal::plan {
namespace {

using memory::MemoryKind;
using memory::Tier;
using memory::TierShares;

// Shares are multiples of 1 / kParts, which are exact in binary: the sum of a kind's shares does
// not depend on how it is divided between host and NVMe.
constexpr int kParts = 256;

TierShares shares_of(int host_parts, int nvme_parts) {
  return {.host = static_cast<double>(host_parts) / kParts,
          .nvme = static_cast<double>(nvme_parts) / kParts};
}

int64_t over(int64_t bytes, int64_t budget) {
  return budget == 0 ? 0 : std::max<int64_t>(0, bytes - budget);
}

class Placing {
 public:
  explicit Placing(const Job& job) : job_(job), at_{job.tiers, rank_with_largest_peak(job)} {}

  TierPlan find() {
    move_to(Tier::host);
    if (!job_.tiers.nvme_path.empty()) move_to(Tier::nvme);
    return std::move(at_);
  }

 private:
  struct Candidate {
    MemoryKind kind;
    TierPlan whole;   // if all of the kind is moved
    double cost = 0;  // additional traffic per freed byte
  };

  // Moves kinds to `tier`, the cheapest first, until the tier that they leave fits its budget.
  void move_to(Tier tier) {
    std::vector<MemoryKind> left;
    for (const MemoryKind kind : job_.undecided_tiers) {
      const bool is_there = tier == Tier::host || at_.tiers.of(kind).host > 0;
      if (is_there) left.push_back(kind);
    }
    while (!fits(at_.plan, tier)) {
      const std::optional<Candidate> cheapest = find_cheapest(left, tier);
      if (!cheapest) return;
      std::erase(left, cheapest->kind);
      at_ = fits(cheapest->whole.plan, tier) ? least_of(*cheapest, tier) : cheapest->whole;
    }
  }

  // Returns the bytes that moving to `tier` reduces: the device's peak, or the bytes stored on the
  // host.
  static int64_t bytes_before(const RankPlan& plan, Tier tier) {
    return tier == Tier::host ? plan.memory_peak_bytes() : plan.bytes_at_rest(Tier::host);
  }

  bool fits(const RankPlan& plan, Tier tier) const {
    if (tier == Tier::nvme) return fits_budgets(job_, plan);
    // Undecided kinds may move on from the host to NVMe, so only the other kinds count.
    int64_t stays_on_host = plan.bytes_at_rest(Tier::host);
    for (const MemoryKind kind : job_.undecided_tiers)
      stays_on_host -= plan.at_rest.at(Tier::host)[kind];
    const int64_t peak = plan.memory_peak_bytes();
    return over(peak, job_.device_budget) == 0 &&
           over(peak + stays_on_host, job_.memory_budget) == 0;
  }

  static int parts_of(const TierShares& shares) {
    return static_cast<int>((shares.host + shares.nvme) * kParts);
  }

  // Returns the current placement with `parts` parts of a kind moved.
  TierPlan place(MemoryKind kind, Tier tier, int parts) const {
    Job job = job_;
    job.tiers = at_.tiers;
    TierShares& shares = job.tiers.of(kind);
    shares = tier == Tier::host ? shares_of(parts, 0) : shares_of(parts_of(shares) - parts, parts);
    return {job.tiers, rank_with_largest_peak(job)};
  }
  int all_parts(MemoryKind kind, Tier tier) const {
    return tier == Tier::host ? kParts : parts_of(at_.tiers.of(kind));
  }

  static int64_t traffic(const RankPlan& plan) {
    return plan.tier_bytes(Tier::host) + plan.tier_bytes(Tier::nvme);
  }

  // Returns nothing if no kind frees memory.
  std::optional<Candidate> find_cheapest(const std::vector<MemoryKind>& kinds, Tier tier) const {
    std::vector<std::future<TierPlan>> wholes;
    for (const MemoryKind kind : kinds) {
      wholes.push_back(std::async(std::launch::async, [this, kind, tier] {
        return place(kind, tier, all_parts(kind, tier));
      }));
    }
    std::optional<Candidate> cheapest;
    for (size_t i = 0; i < kinds.size(); ++i) {
      Candidate candidate{kinds[i], wholes[i].get()};
      const int64_t freed = bytes_before(at_.plan, tier) - bytes_before(candidate.whole.plan, tier);
      if (freed <= 0) continue;
      candidate.cost = static_cast<double>(traffic(candidate.whole.plan) - traffic(at_.plan)) /
                       static_cast<double>(freed);
      if (!cheapest || candidate.cost < cheapest->cost) cheapest = std::move(candidate);
    }
    return cheapest;
  }

  TierPlan least_of(const Candidate& candidate, Tier tier) const {
    TierPlan best = candidate.whole;
    int too_few = 0, enough = all_parts(candidate.kind, tier);
    while (enough - too_few > 1) {
      const int middle = (too_few + enough) / 2;
      TierPlan tried = place(candidate.kind, tier, middle);
      const bool is_enough = fits(tried.plan, tier);
      (is_enough ? enough : too_few) = middle;
      if (is_enough) best = std::move(tried);
    }
    return best;
  }

  const Job& job_;
  TierPlan at_;
};

}  // namespace

Overrun overrun_of(const Job& job, const RankPlan& plan) {
  const int64_t device = plan.memory_peak_bytes(), host = plan.bytes_at_rest(Tier::host);
  return {.device = over(device, job.device_budget),
          .host = over(host, job.host_budget),
          .together = over(device + host, job.memory_budget)};
}

TierPlan place_tiers(const Job& job) {
  return Placing(job).find();
}

}  // namespace colossal::plan
