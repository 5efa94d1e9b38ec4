#include "colossal/plan/block_costs.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "colossal/plan/recorded_step.h"
#include "colossal/plan/step_time.h"

namespace colossal::plan {
namespace {

using parallel::pipeline::ActionKind;

// Whether settings refer to single blocks, so that no two of them need be alike.
bool differ(const Job& job) {
  const auto names_a_block = [](const std::string& pattern) {
    return std::ranges::any_of(pattern, [](char c) { return '0' <= c && c <= '9'; });
  };
  const AdapterConfig& adapter = job.config.adapter;
  return !job.strategy.expert_rows.empty() ||
         (job.model.adapter && (std::ranges::any_of(adapter.targets, names_a_block) ||
                                !adapter.rank_pattern.empty() || !adapter.alpha_pattern.empty()));
}

// Returns by block the first one that is like it. The first and the last have no like.
std::vector<int64_t> likes(const Job& job) {
  const models::TransformerConfig& model = job.model.transformer;
  const int64_t layers = job.model.facts.layers;
  const int64_t first_text = layers - job.model.facts.text_layers;
  const bool all_differ = differ(job);
  std::vector<int64_t> like(layers);
  for (int64_t i = 0; i < layers; ++i) {
    const auto kind = [&](int64_t block) {
      const bool experts = model.layers_with_experts.empty() || model.layers_with_experts.at(block);
      const bool of_texts = block >= first_text;
      return std::tuple(experts, model.is_of_encoder(block), block == model.encoder_layers,
                        of_texts, block == first_text, block < job.recompute.full_blocks,
                        of_texts ? 0 : model.attention_of(block).window);
    };
    like[i] = i;
    if (all_differ || i == 0 || i + 1 == layers) continue;
    for (int64_t before = 1; before < i; ++before) {
      if (like[before] != before || kind(before) != kind(i)) continue;
      if (i < first_text && !(model.attention_of(before) == model.attention_of(i))) continue;
      like[i] = before;
      break;
    }
  }
  return like;
}

// Returns the job with only these blocks of its model, each in a stage of its own, and two of the
// smallest replicas: their gradients are summed, so that the recording tells over which ranks.
Job job_of_blocks(const Job& job, const std::vector<int64_t>& blocks, int64_t sequences,
                  bool several, bool split) {
  Job made = job;
  models::TransformerConfig& model = made.model.transformer;
  models::ModelFacts& facts = made.model.facts;
  const auto number = std::ssize(blocks);
  const auto num_below = [&](int64_t limit) {
    return std::ranges::count_if(blocks, [&](int64_t block) { return block < limit; });
  };
  const auto chosen = [&](const auto& of_all) {
    auto of_these = of_all;
    if (std::ssize(of_all) != job.model.facts.layers) return of_these;  // one for all, or none
    of_these.clear();
    for (const int64_t block : blocks) of_these.push_back(of_all[block]);
    return of_these;
  };
  model.layers = facts.layers = number;
  if (auto& texts = made.model.text_tower) {
    const int64_t of_images = num_below(job.model.transformer.layers);
    model.layers = of_images;
    texts->transformer.layers = facts.text_layers = number - of_images;
  }
  model.encoder_layers = facts.encoder_layers = num_below(model.encoder_layers);
  model.attention = chosen(model.attention);
  model.layers_with_experts = chosen(model.layers_with_experts);
  facts.windows = chosen(facts.windows);
  if (made.recompute.full_blocks != memory::Recompute::kAllBlocks) {
    made.recompute.full_blocks = num_below(made.recompute.full_blocks);
  }
  Strategy& strategy = made.strategy;
  strategy.expert_rows = chosen(strategy.expert_rows);
  strategy.pp = static_cast<int>(number);
  strategy.pp_chunks = 1;
  strategy.pp_schedule = split ? "zb-h1" : "1f1b";
  strategy.stage_blocks.assign(strategy.pp > 1 ? number : 0, 1);
  strategy.stage_ranks.resize(strategy.pp > 1 ? number : 0);
  std::iota(strategy.stage_ranks.begin(), strategy.stage_ranks.end(), 0);
  strategy.dp = static_cast<int>(2 * BlockCosts::smallest_replicas(strategy));
  strategy.zero = 1;
  constexpr int64_t kMicroBatches = 3;  // the first, one after it, and the last
  made.micro_batch = sequences;
  made.share = (several ? kMicroBatches : 1) * sequences;
  made.config.train.global_batch = made.share * strategy.dp;
  PrecisionConfig precision = made.config.precision;
  precision.compute = type_name(job.precision.compute);
  made.precision =
      resolve_precision(precision, /*bf16_instructions=*/false, made.num_micro_batches());
  return made;
}

void add(double& seconds, ActionKind of, ActionKind kind, double more) {
  if (of == kind) seconds += more;
}

// Sums of gradients and gathers of weights are left to the bounds, which know the ranks.
bool is_of_weights(const Collective& call) {
  return call.reason == comm::Reason::gradient || call.reason == comm::Reason::parameter;
}

bool is_of_activations(const Collective& call) {
  return call.reason == comm::Reason::tensor || call.reason == comm::Reason::sequence ||
         call.reason == comm::Reason::expert;
}

void add_summed(const RecordedStep& step, int64_t replica_ranks, BlockCost& cost) {
  for (const Collective& call : step.recording.collectives) {
    const std::vector<int>& ranks = step.recording.rank_lists[call.ranks];
    const auto size = std::ssize(ranks);
    if (!is_of_weights(call) || size == 1) continue;
    BlockCost::Summed& summed = cost.summed[call.axis];
    const int64_t buffer = call.law_bytes * size / (size - 1);
    if (call.operation == comm::Operation::reduce_scatter) summed.gradient_bytes += buffer;
    if (call.operation == comm::Operation::all_gather) summed.weight_bytes += buffer;
    if (summed.size > 0) continue;
    for (const int rank : ranks) {
      if (rank < replica_ranks) summed.ranks.push_back(rank);
    }
    summed.size = std::ssize(summed.ranks);
  }
}

BlockCost cost_of(const Job& job, int stage, bool free_experts,
                  const ClusterSpecification& cluster) {
  const Strategy& strategy = job.strategy;
  const int of_stage = strategy.world_size() / strategy.pp;
  RecordedStep step = record_step(job, stage * of_stage, kFewestMicroBatches);
  // As if the stage were the first: hosts begin at its ranks.
  for (std::vector<int>& ranks : step.recording.rank_lists) {
    for (int& rank : ranks) rank -= stage * of_stage;
  }
  const RankSeconds seconds = seconds_of(step, job, 0, cluster, [&](const Collective& call) {
    return !is_of_activations(call) || (free_experts && call.reason == comm::Reason::expert);
  });
  BlockCost cost;
  const auto last = static_cast<int>(job.num_micro_batches()) - 1;
  for (const RankSeconds::OfAction& made : seconds.actions) {
    const int micro_batch = made.action.micro_batch;
    const ActionKind kind = made.action.kind;
    const double here = made.seconds.total();
    for (int i = 0; i < 3; ++i) {
      if (micro_batch != std::min(i, last)) continue;
      add(cost.passes[i].forward, kind, ActionKind::forward, here);
      add(cost.passes[i].input_gradient, kind, ActionKind::backward_input, here);
      add(cost.passes[i].weight_gradient, kind, ActionKind::backward_weight, here);
      add(cost.passes[i].backward, kind, ActionKind::backward, here);
    }
    if (kind == ActionKind::send_forward) {
      cost.message_bytes = static_cast<double>(made.message_bytes);
    }
  }
  cost.activation_bytes = static_cast<double>(std::ranges::max(step.activation_bytes));
  cost.weight_bytes = static_cast<double>(step.state.parameters);
  cost.gradient_bytes = static_cast<double>(step.state.gradients);
  add_summed(step, of_stage / 2, cost);
  double sharded = 0;  // weights whose state this rank holds
  for (const auto& [axis, summed] : cost.summed) {
    sharded += static_cast<double>(summed.weight_bytes) / static_cast<double>(2 * summed.size);
  }
  if (sharded > 0) {
    cost.optimizer_ratio = static_cast<double>(step.state.optimizer) / sharded;
    cost.update_ratio = static_cast<double>(step.update_bytes) / sharded;
  }
  return cost;
}

}  // namespace

PassSeconds& PassSeconds::operator+=(const PassSeconds& other) {
  forward += other.forward;
  input_gradient += other.input_gradient;
  weight_gradient += other.weight_gradient;
  backward += other.backward;
  return *this;
}

PassSeconds PassSeconds::scaled(double factor) const {
  return {forward * factor, input_gradient * factor, weight_gradient * factor, backward * factor};
}

PassSeconds BlockCost::mean_pass(int64_t micro_batches) const {
  if (micro_batches == 1) return passes[0];
  PassSeconds sum = passes[0];
  sum += passes[2];
  sum += passes[1].scaled(static_cast<double>(micro_batches - 2));
  return sum.scaled(1 / static_cast<double>(micro_batches));
}

BlockCost BlockCost::extrapolated(const BlockCost& more, double times) const {
  BlockCost cost = *this;
  for (size_t i = 0; i < passes.size(); ++i) {
    cost.passes[i] = passes[i].scaled(1 - times);
    cost.passes[i] += more.passes[i].scaled(times);
  }
  cost.message_bytes += times * (more.message_bytes - message_bytes);
  cost.activation_bytes += times * (more.activation_bytes - activation_bytes);
  return cost;
}

int64_t BlockCosts::smallest_replicas(const Strategy& strategy) {
  const int64_t of_replica = int64_t{strategy.sp} * strategy.tp, experts = strategy.expert_ranks();
  return experts / std::gcd(experts, of_replica);
}

BlockCosts::BlockCosts(const Job& job, int64_t sequences, bool several_micro_batches, bool split,
                       bool free_experts, const ClusterSpecification& cluster,
                       const std::function<Job(const Job&)>& dry_run_job) {
  const std::vector<int64_t> like = likes(job);
  std::vector<int64_t> recorded;  // the blocks
  std::map<int64_t, int> index;   // block -> its index in costs_
  for (int64_t block = 0; block < std::ssize(like); ++block) {
    if (like[block] == block) {
      index[block] = static_cast<int>(recorded.size());
      recorded.push_back(block);
    }
    of_block_.push_back(index.at(like[block]));
  }
  const Job made =
      dry_run_job(job_of_blocks(job, recorded, sequences, several_micro_batches, split));
  // The recorded job may have more ranks than the job: its hosts have as many as the job's.
  ClusterSpecification hosts = cluster;
  hosts.hosts.ranks = cluster.local_ranks(job.strategy.world_size());
  for (int stage = 0; stage < std::ssize(recorded); ++stage) {
    costs_.push_back(cost_of(made, stage, free_experts, hosts));
  }
}

BlockCosts BlockCosts::extrapolated(const BlockCosts& more, double times) const {
  BlockCosts made = *this;
  for (size_t i = 0; i < costs_.size(); ++i) {
    made.costs_[i] = costs_[i].extrapolated(more.costs_[i], times);
  }
  return made;
}

BlockCosts BlockCosts::with_last_of(const BlockCosts& last) const {
  BlockCosts made = *this;
  for (size_t i = 0; i < costs_.size(); ++i) {
    made.costs_[i].passes.back() = last.costs_[i].passes.back();
  }
  return made;
}

}  // namespace colossal::plan
