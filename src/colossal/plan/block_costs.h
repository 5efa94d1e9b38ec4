// The costs of a model's single blocks at a layout, from dry runs of pipelines with one block in
// each stage. Blocks that are alike are recorded once. The costs of any division of the
// blocks into stages are sums of these: bounds for searches over many layouts (layout_bound.h).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "colossal/job/job.h"
#include "colossal/plan/cluster_specification.h"
#include "colossal/plan/rank_rates.h"

namespace colossal::plan {

// Seconds of the passes of one micro-batch through a block, with the communication of activations
// (tp, sp, ep) but without that of gradients and weights. A backward pass is either whole or split.
struct PassSeconds {
  double forward = 0, input_gradient = 0, weight_gradient = 0, backward = 0;

  double total() const { return forward + input_gradient + weight_gradient + backward; }
  PassSeconds& operator+=(const PassSeconds& other);
  PassSeconds scaled(double factor) const;
};

struct BlockCost {
  // Of the first micro-batch of a step, of one after it, and of the last.
  std::array<PassSeconds, 3> passes;
  double message_bytes = 0;                     // what it sends to the next block, of a micro-batch
  double activation_bytes = 0;                  // what a micro-batch's forward pass keeps
  double weight_bytes = 0, gradient_bytes = 0;  // of this rank, before ZeRO divides them
  // The optimizer's bytes for each byte of a trained weight, before ZeRO divides them.
  double optimizer_ratio = 0;
  double update_ratio = 0;  // likewise the bytes that an update reads and writes

  // Trained weights whose gradients are summed over the same ranks.
  struct Summed {
    int64_t weight_bytes = 0, gradient_bytes = 0;  // before ZeRO divides them
    std::vector<int> ranks;  // those among the first BlockCosts::smallest_replicas() replicas
    int64_t size = 0;        // number of these
  };
  std::map<std::string, Summed> summed;  // by the axis of the sums

  // Returns the mean over the micro-batches of a step.
  PassSeconds mean_pass(int64_t micro_batches) const;
  // Returns the costs of `times` more micro-batches' sequences, if a recording with `more`
  // sequences costs that much more than this one.
  BlockCost extrapolated(const BlockCost& more, double times) const;
};

// The costs of all blocks. The first has the embedding too, and the last the head and the loss.
class BlockCosts {
 public:
  // Records the blocks of a job with `sequences` sequences a micro-batch, and one or several
  // micro-batches a step. Of job, these have no effect: pp and its schedule, dp, zero, the batch.
  // split: whether backward passes are split. free_experts: whether the exchange of rows with
  // experts takes no time. dry_run_job: see search_strategies(). Throws ConfigError if the job
  // cannot run like this, or if the cluster lacks a rate.
  BlockCosts(const Job& job, int64_t sequences, bool several_micro_batches, bool split,
             bool free_experts, const ClusterSpecification& cluster,
             const std::function<Job(const Job&)>& dry_run_job);

  // Returns the smallest dp at which the experts of a layer fit the ranks of a stage.
  static int64_t smallest_replicas(const Strategy& strategy);

  int64_t num_blocks() const { return std::ssize(of_block_); }
  const BlockCost& operator[](int64_t block) const { return costs_[of_block_[block]]; }
  // The distinct costs, and the index of a block's.
  const std::vector<BlockCost>& distinct() const { return costs_; }
  int index(int64_t block) const { return of_block_[block]; }
  // Replaces costs by BlockCost::extrapolated().
  BlockCosts extrapolated(const BlockCosts& more, double times) const;
  // Replaces the costs of the last micro-batch by those of `last`.
  BlockCosts with_last_of(const BlockCosts& last) const;
  int64_t recorded() const { return std::ssize(costs_); }  // number of dry runs

 private:
  std::vector<int> of_block_;     // by block: an index in costs_
  std::vector<BlockCost> costs_;  // of the blocks that were recorded
};

}  // namespace colossal::plan
