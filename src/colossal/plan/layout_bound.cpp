#include "colossal/plan/layout_bound.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "colossal/job/pipeline_config.h"
#include "colossal/memory/chunk.h"
#include "colossal/parallel/pipeline/in_flight.h"
#include "colossal/plan/rank_rates.h"

namespace colossal::plan {
namespace {

// What a rough bound may be too high by: if backward passes are split, and if a step has a single
// micro-batch, whose gradients may be narrower and are not added to others.
constexpr double kOfSplitting = 0.03, kOfSingle = 0.15;

int64_t num_micro_batches(int64_t share, int64_t micro_batch) {
  return (share + micro_batch - 1) / micro_batch;
}

// Returns whether backward passes of the schedule are split into input and weight gradients.
bool is_split(const parallel::pipeline::Schedule& schedule) {
  return std::ranges::any_of(schedule.actions, [](const auto& actions) {
    return std::ranges::any_of(actions, [](const parallel::pipeline::Action& action) {
      return action.kind == parallel::pipeline::ActionKind::backward_weight;
    });
  });
}

}  // namespace

// Sums over the blocks of a rank.
struct LayoutBounds::Sums {
  // Trained weights whose gradients are summed over the same ranks, before ZeRO divides them.
  struct OfAxis {
    const std::string* axis;
    const BlockCost::Summed* ranks;
    double weights = 0, gradients = 0;
    double blocks = 0, least_weights = INFINITY;  // of a block

    // Returns the bytes of weights that backward passes gather again with ZeRO 3: not those of the
    // last block and of the window, which are still there, nor those of the embedding.
    double gathered_again() const {
      constexpr auto kWindow = static_cast<double>(memory::ChunkOptions{}.window_bytes);
      return std::max(0.0, (blocks - 1) * least_weights - kWindow);
    }
  };

  PassSeconds pass;  // mean over the micro-batches
  double stages = 0;
  double activations = 0, weights = 0, gradients = 0;
  // For each byte of a trained weight before ZeRO divides it.
  double optimizer_ratio = 0, update_ratio = 0;
  std::vector<OfAxis> axes;
  int first_stage = 0;

  OfAxis& of(const std::string& axis, const BlockCost::Summed& ranks) {
    const auto found =
        std::ranges::find_if(axes, [&](const OfAxis& one) { return *one.axis == axis; });
    return found == axes.end() ? axes.emplace_back(&axis, &ranks) : *found;
  }
};

LayoutBounds::LayoutBounds(const LayoutSpace& space, const ClusterSpecification& cluster,
                           const std::function<Job(const Job&)>& dry_run_job)
    : space_(space), cluster_(cluster), dry_run_job_(dry_run_job) {
  for (const Layout& division : space.divisions()) most_ep_ = std::max(most_ep_, division.ep);
}

namespace {

// Returns the number of sequences of which each rank of tp has one: in 2d, 2.5d and 3d they divide
// the sequences of a micro-batch among them.
int64_t sequences_of_each(const Strategy& strategy) {
  const int64_t side = strategy.tensor_side();
  if (strategy.tensor_mode == TensorMode::two_d) return side;
  if (strategy.tensor_mode == TensorMode::two_and_half_d) return side * strategy.tp_depth;
  return strategy.tensor_mode == TensorMode::three_d ? side * side : 1;
}

}  // namespace

// The costs grow evenly with the sequences that a rank has, from the second on.
BlockCosts LayoutBounds::made_costs(const Key& key, const Job& job) {
  const auto& [layout, sequences, of_last, several, split, free_experts] = key;
  const auto all_with = [&](int64_t number) -> const BlockCosts& {
    return costs({layout, number, number, several, split, free_experts}, job);
  };
  if (of_last != sequences) return all_with(sequences).with_last_of(all_with(of_last));
  const int64_t one = sequences_of_each(job.strategy), of_rank = (sequences + one - 1) / one;
  if (of_rank > 2 || sequences != of_rank * one) {
    if (of_rank <= 2) return all_with(of_rank * one);
    return all_with(one).extrapolated(all_with(2 * one), static_cast<double>(of_rank - 1));
  }
  Job made = job;
  made.strategy.ep = static_cast<int>(layout.ep);
  if (!space_.keys().contains("memory.recompute")) {
    made.recompute = {.selective = layout.recompute == "selective"};
    if (layout.recompute == "full") made.recompute.full_blocks = memory::Recompute::kAllBlocks;
  }
  BlockCosts costs(made, sequences, several, split, free_experts, cluster_, dry_run_job_);
  recorded_ += costs.recorded();
  return costs;
}

const BlockCosts& LayoutBounds::costs(const Key& key, const Job& job) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = costs_.find(key); found != costs_.end()) return *found->second;
  }
  auto made = std::make_shared<BlockCosts>(made_costs(key, job));
  const std::lock_guard lock(mutex_);
  return *costs_.try_emplace(key, std::move(made)).first->second;
}

const BlockCosts& LayoutBounds::costs(const Layout& layout, const Job& job, bool several,
                                      bool split, bool free_experts) {
  Layout alike = layout;
  alike.pp = alike.dp = alike.micro_batch = 1;
  alike.zero = alike.pp_chunks = 0;
  alike.pp_schedule.clear();
  if (free_experts) alike.ep = most_ep_;
  const int64_t share = space_.share(layout), sequences = std::min(layout.micro_batch, share);
  const int64_t rest = share % sequences;
  return costs({alike, sequences, rest > 0 ? rest : sequences, several, split, free_experts}, job);
}

const LayoutBounds::Shape& LayoutBounds::shape(const Layout& layout, const Job& job) {
  const int64_t all = num_micro_batches(space_.share(layout), layout.micro_batch);
  // With more micro-batches, ranks hold no more of them.
  const int64_t chunks = std::max<int64_t>(2, layout.pp_chunks);
  const int64_t micro_batches = std::min(all, 2 * layout.pp * chunks + all % layout.pp);
  const std::tuple key(layout.pp, layout.pp_schedule, layout.pp_chunks, micro_batches);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = shapes_.find(key); found != shapes_.end()) return *found->second;
  }
  auto made = std::make_shared<Shape>();
  const int64_t layers = job.model.facts.layers;
  if (layout.pp == 1) {
    *made = {{0, layers}, {0}, {1}, false};
  } else {
    Strategy strategy = job.strategy;
    const RunConfig config = space_.config(layout);
    resolve_pipeline(config.parallel, job.model.facts, job.sequence_length, micro_batches,
                     strategy);
    const auto schedule = training_schedule(
        strategy, stage_costs(strategy, job.model.facts, job.sequence_length), micro_batches);
    made->first_blocks = {0};
    for (const int64_t blocks : strategy.stage_blocks) {
      made->first_blocks.push_back(made->first_blocks.back() + blocks);
    }
    made->rank_of_stage = strategy.stage_ranks;
    for (const auto& of_rank : parallel::pipeline::in_flight_of_ranks(schedule)) {
      made->held.push_back(of_rank.activations);
    }
    made->split = is_split(schedule);
  }
  const std::lock_guard lock(mutex_);
  return *shapes_.try_emplace(key, std::move(made)).first->second;
}

std::vector<LayoutBounds::Sums> LayoutBounds::sums_of_ranks(const Layout& layout, const Job& job,
                                                            const Shape& shape,
                                                            const BlockCosts& costs) const {
  const int64_t micro_batches = num_micro_batches(space_.share(layout), layout.micro_batch);
  std::vector<Sums> ranks(layout.pp);
  const auto stages = static_cast<int>(shape.rank_of_stage.size());
  // A table that embedding and head share is there once if both are on one rank.
  const bool has_table_once = job.model.transformer.tied_head && costs.num_blocks() > 2 &&
                              shape.rank_of_stage.front() == shape.rank_of_stage.back();
  std::vector<int64_t> numbers(costs.distinct().size());
  for (int stage = stages - 1; stage >= 0; --stage) {
    Sums& rank = ranks[shape.rank_of_stage[stage]];
    rank.first_stage = stage;
    ++rank.stages;
    std::ranges::fill(numbers, 0);
    for (int64_t i = shape.first_blocks[stage]; i < shape.first_blocks[stage + 1]; ++i) {
      ++numbers[costs.index(i)];
    }
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] == 0) continue;
      const auto number = static_cast<double>(numbers[i]);
      const BlockCost& block = costs.distinct()[i];
      rank.pass += block.mean_pass(micro_batches).scaled(number);
      rank.activations += number * block.activation_bytes;
      const bool is_last = i + 1 == numbers.size();
      const BlockCost& held = is_last && has_table_once ? costs.distinct()[i - 1] : block;
      rank.weights += number * held.weight_bytes;
      rank.gradients += number * held.gradient_bytes;
      rank.optimizer_ratio = std::max(rank.optimizer_ratio, held.optimizer_ratio);
      rank.update_ratio = std::max(rank.update_ratio, held.update_ratio);
      for (const auto& [axis, summed] : held.summed) {
        Sums::OfAxis& all = rank.of(axis, summed);
        const auto weights = static_cast<double>(summed.weight_bytes);
        all.weights += number * weights;
        all.blocks += number;
        all.least_weights = std::min(all.least_weights, weights);
        all.gradients += number * static_cast<double>(summed.gradient_bytes);
      }
    }
  }
  return ranks;
}

namespace {

// Returns the place of a group that has the same ranks in each `replica_ranks` ranks as `summed`,
// `times` times.
GroupPlace place_of(const BlockCost::Summed& summed, int64_t replica_ranks, int64_t times,
                    int64_t local_ranks) {
  GroupPlace place{summed.size * times, 0};
  for (int64_t i = 0; i < times && i * replica_ranks < local_ranks; ++i) {
    place.here += std::ranges::count_if(
        summed.ranks, [&](int rank) { return rank + i * replica_ranks < local_ranks; });
  }
  place.here = std::max<int64_t>(1, place.here);
  return place;
}

}  // namespace

LayoutBound LayoutBounds::of(const Layout& layout, const Job& job, bool rough) {
  const Shape& pipeline = shape(layout, job);
  const bool several = num_micro_batches(space_.share(layout), layout.micro_batch) > 1;
  LayoutBound bound{.rough = rough && (pipeline.split || !several)};
  const BlockCosts& blocks = costs(layout, job, rough || several, pipeline.split && !rough,
                                   /*free_experts=*/false);
  const std::vector<Sums> ranks = sums_of_ranks(layout, job, pipeline, blocks);
  const RankRates rates(cluster_, job);
  const double overlap = rates.overlap();
  const auto micro_batches =
      static_cast<double>(num_micro_batches(space_.share(layout), layout.micro_batch));
  const int64_t least = BlockCosts::smallest_replicas(job.strategy);
  const int64_t local = cluster_.local_ranks(job.strategy.world_size());
  const int64_t replica_ranks = least * job.strategy.sp * job.strategy.tp;
  const bool sums_once = layout.zero < 2 || job.config.parallel.accumulate == "full";
  const auto [way, way_back] = ways(layout, job, pipeline, blocks, rates);
  double makespan = 0, busy = 0, rest = 0;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const Sums& rank = ranks[r];
    // Seconds of the calls for all gradients, for all weights, and for those of backward passes.
    double sum = 0, gather = 0, gather_again = 0;
    double optimizer = 0, update = 0, elsewhere = 0, gradients_elsewhere = 0;
    for (const Sums::OfAxis& axis : rank.axes) {
      const GroupPlace place = place_of(*axis.ranks, replica_ranks, layout.dp / least, local);
      const double part = 1 / static_cast<double>(place.size);
      optimizer += rank.optimizer_ratio * axis.weights * (layout.zero > 0 ? part : 1);
      update += rank.update_ratio * axis.weights * (layout.zero > 0 ? part : 1);
      elsewhere += axis.weights * (1 - part);
      gradients_elsewhere += axis.gradients * (1 - part);
      if (place.size == 1 || job.strategy.zero_group > 0) continue;
      const double reductions = layout.zero == 0 ? 2 : 1;  // all-reduces send twice as much
      sum +=
          rates.call_seconds(comm::Operation::reduce_scatter,
                             static_cast<int64_t>(reductions * (1 - part) * axis.gradients), place);
      const auto gather_of = [&](double bytes) {
        return rates.call_seconds(comm::Operation::all_gather,
                                  static_cast<int64_t>((1 - part) * bytes), place);
      };
      gather += gather_of(axis.weights);
      if (axis.gathered_again() > 0) gather_again += gather_of(axis.gathered_again());
    }
    const double gathers = layout.zero == 3 ? micro_batches * (gather + gather_again) : 0;
    const double calls = (sums_once ? 1 : micro_batches) * sum + gathers;
    const double passes = micro_batches * rank.pass.total();
    // The rank waits for the calls that are not over when its passes are.
    const double hiding = sums_once && layout.zero < 3 ? rank.pass.total() : passes;
    const double work = passes + (1 - overlap) * calls + std::max(0.0, overlap * calls - hiding);
    if (layout.zero == 1 || layout.zero == 2) {
      rest = std::max(rest, std::max(overlap, 1 - overlap) * gather);
    }
    rest = std::max(rest, rates.update_seconds(static_cast<int64_t>(update), at::kFloat));
    const double start = way[rank.first_stage], end = way_back[rank.first_stage];
    // Weight gradients may be computed when the gradients of inputs are already on their way back.
    const double forwards = passes - micro_batches * rank.pass.weight_gradient;
    const double until_end =
        pipeline.split ? std::max(work, bound.rough ? 0 : forwards + end) : work + end;
    makespan = std::max(makespan, start + until_end);
    busy += work / static_cast<double>(ranks.size());

    const double weights = rank.weights - (layout.zero == 3 ? elsewhere : 0);
    const double gradients = rank.gradients - (layout.zero >= 2 ? gradients_elsewhere : 0);
    const double activations = rank.activations / std::max(1.0, rank.stages) * pipeline.held[r];
    // In the first backward passes there are few gradients yet.
    const bool together = micro_batches > 1 &&
                          micro_batches >= 2 * static_cast<double>(pipeline.rank_of_stage.size());
    bound.bytes = std::max(
        bound.bytes, weights + optimizer +
                         (together ? gradients + activations : std::max(gradients, activations)));
  }
  bound.seconds = rest + (layout.pp == 1 ? makespan : std::max(makespan / rates.crowding(), busy));
  if (bound.rough) bound.seconds *= several ? 1 - kOfSplitting : 1 - kOfSingle;
  const bool moves = job.recompute_undecided || !job.undecided_tiers.empty() ||
                     job.tiers.uses(memory::Tier::host) || job.tiers.uses(memory::Tier::nvme);
  if (moves) bound.bytes = 0;
  return bound;
}

// Returns by stage when the first micro-batch reaches it, and how long its gradient takes from
// there to the first stage.
std::pair<std::vector<double>, std::vector<double>> LayoutBounds::ways(
    const Layout& layout, const Job& job, const Shape& pipeline, const BlockCosts& blocks,
    const RankRates& rates) const {
  const int64_t micro_batches = num_micro_batches(space_.share(layout), layout.micro_batch);
  const int apart = job.strategy.world_size() / job.strategy.pp;
  const auto stages = static_cast<int>(pipeline.rank_of_stage.size());
  std::vector<double> way(stages), way_back(stages);
  for (int stage = 1; stage < stages; ++stage) {
    PassSeconds pass;
    for (int64_t i = pipeline.first_blocks[stage - 1]; i < pipeline.first_blocks[stage]; ++i) {
      pass += blocks[i].mean_pass(micro_batches);
    }
    double message = 0;
    if (pipeline.rank_of_stage[stage - 1] != pipeline.rank_of_stage[stage]) {
      const double bytes = blocks[pipeline.first_blocks[stage] - 1].message_bytes;
      message = rates.message_seconds(static_cast<int64_t>(bytes), 0, apart);
    }
    way[stage] = way[stage - 1] + pass.forward + message;
    way_back[stage] = way_back[stage - 1] + pass.input_gradient + pass.backward + message;
  }
  return {way, way_back};
}

double LayoutBounds::of_division(const Layout& division, const Job& job) {
  double least = INFINITY;
  for (const int64_t micro_batch : space_.micro_batches(division)) {
    Layout layout = division;
    layout.micro_batch = micro_batch;
    layout.recompute = space_.recomputations().front();
    const BlockCosts& blocks =
        costs(layout, job, /*several=*/true, /*split=*/false, /*free_experts=*/true);
    const int64_t all = num_micro_batches(space_.share(layout), micro_batch);
    PassSeconds pass;
    for (int64_t i = 0; i < blocks.num_blocks(); ++i) pass += blocks[i].mean_pass(all);
    const double passes =
        static_cast<double>(all) * pass.total() * (1 - (all > 1 ? kOfSplitting : kOfSingle));
    least = std::min(least, passes / static_cast<double>(division.pp));
  }
  return least;
}

}  // namespace colossal::plan
