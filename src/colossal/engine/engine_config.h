// The configuration of an Engine (engine.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "colossal/job/job.h"
#include "colossal/job/precision.h"
#include "colossal/memory/activations.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/nn/parameter.h"
#include "colossal/optim/optimizer_config.h"
#include "colossal/optim/schedule.h"
#include "colossal/parallel/pipeline/costs.h"

namespace colossal {

struct EngineConfig {
  optim::OptimizerConfig optimizer;
  optim::ScheduleConfig schedule;
  int64_t total_steps = 1;     // length of the learning-rate schedule
  int64_t global_batch = 1;    // sequences per step, over all replicas
  double gradient_clip = 1.0;  // gradients are scaled down to this global norm; 0: no clipping
  uint64_t seed = 0;           // for initial weights and dropout
  Precision precision;
  // The next four fields are those of memory::ChunkOptions.
  // Whether the model reads its weights through parameter handles. Booster sets false for a user's
  // own torch module. update() then returns only after the all-gathers of updated weights (ZeRO
  // stages 1 and 2) have ended, and a weight that is sharded (ZeRO stage 3) or offloaded is fetched
  // when an operator of the forward pass receives it.
  bool uses_parameter_handles = true;
  // For ZeRO stages 2 and 3. false: gradients are reduced after each micro-batch. true: they are
  // reduced once, after the step's last micro-batch, with less traffic and more memory.
  bool reduce_once_per_step = false;
  // Limits the size of chunks: about this many bytes of weights on a rank, before ZeRO divides
  // them. ChunkOptions has the exact limit.
  int64_t chunk_bytes = memory::ChunkOptions{}.chunk_bytes;
  // For weights that are sharded (ZeRO stage 3) or offloaded: limits the bytes of fetched weights
  // on the device, and thus how far ahead of their use weights are fetched. ChunkOptions lists the
  // exceptions.
  int64_t window_bytes = memory::ChunkOptions{}.window_bytes;
  memory::Recompute recompute;  // which activations are recomputed
  memory::Tiers tiers;          // what is offloaded to host memory and NVMe
  // For weights that are sharded (ZeRO stage 3) or offloaded: the order in which the passes of a
  // micro-batch use the weights, for each stage, from record_order() (order_recording.h). Weights
  // are fetched in this order, ahead of their use. Empty: until the first backward pass of a stage
  // has ended, each pass of the stage fetches all these weights when it begins, and keeps them
  // until it ends. The ranks with the stage then compare the orders in which they have used the
  // weights. If one order contains all others, later passes follow it. Otherwise they go on as
  // before.
  memory::OrderOfStages order;
  // Names of the metrics that the loss may return (LossSum::metrics). A name for which
  // is_maximum() (control.h) is true is reported as a maximum, all others as means.
  std::vector<std::string> metrics;
  // Costs of the pipeline's stages, for schedules that depend on costs. Empty: all stages cost the
  // same.
  parallel::pipeline::Costs stage_costs;
  // The next four fields are for mixture-of-experts models. num_blocks: number of all blocks of
  // the model, also of blocks without experts; 0 for a model without experts. experts: number of
  // routed experts of a block that has experts; 0: router statistics are not collected.
  int64_t num_blocks = 0;
  int64_t experts = 0;
  // Whether experts have a capacity. If true, the metric "router_dropped" reports the fraction of
  // the assignments of tokens to experts that were dropped.
  bool routers_drop = false;
  // Amount by which a step changes the correction bias of each expert (RouterBalance). 0: biases
  // do not change.
  double router_bias_rate = 0;
};

// The options of the engine's chunks.
memory::ChunkOptions chunk_options(const EngineConfig& config);
// Returns the parameters' optimizers. Freezes the parameters of frozen groups.
std::shared_ptr<const optim::ParameterGroups> parameter_groups(const optim::OptimizerConfig& config,
                                                               const nn::ParameterList& parameters);

// Returns the configuration of the job's engine. The caller sets EngineConfig::order and
// EngineConfig::metrics.
EngineConfig engine_config(const Job& job);

}  // namespace colossal
