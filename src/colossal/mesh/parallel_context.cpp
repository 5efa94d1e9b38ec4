#include "colossal/mesh/parallel_context.h"

#include <algorithm>
#include <iterator>

#include "colossal/base/error.h"

namespace colossal {
namespace {

using AxisNames = ParallelContext::AxisNames;

constexpr const char* kMirrorAxis = "tp.mirror";
constexpr const char* kEndsAxis = "pp.ends";

// Returns the sets of axes along which ranks form groups.
std::vector<AxisNames> wanted_groups(const Strategy& strategy) {
  std::vector<AxisNames> wanted{
      {"pp", "dp", "sp", "tp"}, {"dp", "sp", "tp"}, {"dp", "sp"}, {"pp"}, {"dp"}, {"sp"}, {"tp"}};
  // Gradients are summed over dp, sp and all axes whose ranks hold the same parameters. If ranks
  // share keys and values, there is a second group that includes these ranks.
  const auto reduce_over = [&](AxisNames names, const char* same_keys) {
    names.insert(names.begin(), {"dp", "sp"});
    wanted.push_back(names);
    if (strategy.key_value_replicas == 1) return;
    names.push_back(same_keys);
    wanted.push_back(std::move(names));
  };
  switch (strategy.tensor_mode) {
    case TensorMode::one_d:
      reduce_over({}, "tp.query");
      break;
    case TensorMode::two_d:
    case TensorMode::two_and_half_d:
      wanted.insert(wanted.end(), {{"tp.row"}, {"tp.column"}, {"tp.depth", "tp.row"}});
      reduce_over({"tp.depth"}, "tp.column.query");
      reduce_over({"tp.depth", "tp.row"}, "tp.column.query");
      break;
    case TensorMode::three_d:
      wanted.insert(wanted.end(),
                    {{"tp.i"}, {"tp.j"}, {"tp.l"}, {"tp.i", "tp.j"}, {"tp.i", "tp.l"}});
      reduce_over({}, "tp.l.query");
      reduce_over({"tp.i", "tp.j"}, "tp.l.query");
      wanted.push_back({"dp", "sp", "tp.i", "tp.l"});
      break;
  }
  return wanted;
}

RankGrid mesh_of_experts(const Strategy& strategy) {
  std::vector<GridAxis> axes{{axis_name(Axis::pp), strategy.pp}};
  for (const auto& [name, size] : strategy.expert_axes()) axes.push_back({name, size});
  return RankGrid(std::move(axes));
}

}  // namespace

ParallelContext::ParallelContext(comm::World& world, const Strategy& strategy)
    : ParallelContext(world, strategy, world.device()) {}

ParallelContext::ParallelContext(comm::World& world, const Strategy& strategy, at::Device device)
    : world_(world),
      strategy_(strategy),
      mesh_(strategy),
      expert_mesh_(mesh_of_experts(strategy)),
      device_(device) {
  COLOSSAL_CHECK(strategy.world_size() == world.size() && mesh_.num_ranks() == world.size(),
                 "strategy of {} ranks, grid of {}, world of {}", strategy.world_size(),
                 mesh_.num_ranks(), world.size());
  for (const AxisNames& names : wanted_groups(strategy)) make_group(mesh_, names);
  if (strategy.zero_group > 0) make_shard_groups();
  if (strategy.expert_ranks() > 1) make_expert_groups();
  if (strategy.tensor_mode != TensorMode::one_d) make_mirror_group();
  if (strategy.pp > 1) make_pipeline_groups();
  if (device.is_cuda()) {
    for (const Axis axis : {Axis::pp, Axis::tp}) {
      host_groups_.emplace(axis, world.host_group(axis_name(axis), group(axis).ranks()));
    }
  }
  const comm::Group& all = world_group();
  background_ = world.host_group(all.axis(), all.ranks());
}

const comm::Group& ParallelContext::along(const AxisNames& names) const {
  const std::string name = mesh_.joined_name(mesh_.axes_of(names));
  const auto found = groups_.find(name);
  COLOSSAL_CHECK(found != groups_.end(), "no group along {}", name);
  return found->second;
}

const comm::Group& ParallelContext::host_group(Axis axis) const {
  return device_.is_cuda() ? host_groups_.at(axis) : group(axis);
}

const comm::Group& ParallelContext::along_experts(const AxisNames& names) const {
  if (strategy_.expert_ranks() == 1) return alone_;
  const std::string name = expert_mesh_.joined_name(expert_mesh_.axes_of(names));
  return groups_.at(name);
}

const comm::Group& ParallelContext::same_experts_group() const {
  return strategy_.expert_ranks() == 1 ? stage_group() : along_experts({"expert_dp"});
}

const comm::Group& ParallelContext::same_experts_and_parts_group() const {
  return strategy_.expert_tp == 1 ? same_experts_group()
                                  : along_experts({"expert_dp", "expert_tp"});
}

const comm::Group& ParallelContext::make_group(const RankGrid& grid, const AxisNames& names) {
  return make_group(grid, grid.axes_of(names));
}

const comm::Group& ParallelContext::make_group(const RankGrid& grid, const AxisSet& axes) {
  const std::string name = grid.joined_name(axes);
  const auto found = groups_.find(name);
  if (found != groups_.end()) return found->second;
  return groups_.emplace(name, world_.group(name, grid.ranks_along(rank(), axes))).first->second;
}

void ParallelContext::make_shard_groups() {
  const AxisSet replicas = mesh_.axes_of(strategy_.replica_axes());
  const std::string replica_name = make_group(mesh_, replicas).axis();
  const AxisSet data = mesh_.axes_of({"dp", "sp"});
  for (const AxisNames& names : wanted_groups(strategy_)) {
    const AxisSet axes = mesh_.axes_of(names);
    if (!std::ranges::includes(axes, data)) continue;
    AxisSet shards;
    std::ranges::set_difference(axes, replicas, std::back_inserter(shards));
    const std::string name = mesh_.joined_name(axes);
    shard_groups_[name] = make_group(mesh_, shards).axis();
    replica_groups_[name] = replica_name;
  }
}

void ParallelContext::make_expert_groups() {
  for (const char* name : {"expert_dp", "ep", "expert_tp"}) make_group(expert_mesh_, {name});
  if (strategy_.expert_tp > 1) make_group(expert_mesh_, AxisNames{"expert_dp", "expert_tp"});
  if (strategy_.zero_group == 0) return;
  const std::string& same = same_experts_group().axis();
  shard_groups_[same] = make_group(expert_mesh_, {"expert_dp.shard"}).axis();
  replica_groups_[same] = make_group(expert_mesh_, {"expert_dp.replica"}).axis();
  if (strategy_.expert_tp == 1) return;
  const std::string& parts = same_experts_and_parts_group().axis();
  shard_groups_[parts] = make_group(expert_mesh_, AxisNames{"expert_dp.shard", "expert_tp"}).axis();
  replica_groups_[parts] = replica_groups_[same];
}

const comm::Group& ParallelContext::shard_group(const comm::Group& same_parameters) const {
  if (strategy_.zero_group == 0) return same_parameters;
  return groups_.at(shard_groups_.at(same_parameters.axis()));
}

const comm::Group& ParallelContext::replica_group(const comm::Group& same_parameters) const {
  if (strategy_.zero_group == 0) return alone_;
  return groups_.at(replica_groups_.at(same_parameters.axis()));
}

std::vector<std::string> ParallelContext::ledger_axes() const {
  std::vector<std::string> axes;
  for (const auto& [name, group] : groups_) {
    if (group.size() > 1) axes.push_back(name);
  }
  // Only these groups differ in size between ranks: some ranks are alone in them. All ranks must
  // return the same list.
  if (strategy_.tensor_mode != TensorMode::one_d) axes.emplace_back(kMirrorAxis);
  if (strategy_.stage_rank(strategy_.num_stages() - 1) > 0) axes.emplace_back(kEndsAxis);
  return axes;
}

void ParallelContext::make_mirror_group() {
  const int side = strategy_.tensor_side();
  const int here = rank() % (side * side);
  const int mirror = rank() - here + here % side * side + here / side;
  std::vector<int> ranks{rank()};
  if (mirror != rank()) ranks.insert(mirror < rank() ? ranks.begin() : ranks.end(), mirror);
  mirror_ = world_.group(kMirrorAxis, ranks);
}

// Returns the rank that holds a stage of this rank's pipeline.
int ParallelContext::rank_at_stage(int stage) const {
  return mesh_.ranks_along(rank(), mesh_.axes_of({"pp"})).at(strategy_.stage_rank(stage));
}

void ParallelContext::make_pipeline_groups() {
  const int last = strategy_.num_stages() - 1;
  const int first_end = rank_at_stage(0), last_end = rank_at_stage(last);
  const bool holds_one_end = first_end != last_end && (holds_stage(0) || holds_stage(last));
  tied_table_group_ = world_.group(
      kEndsAxis, holds_one_end ? std::vector{first_end, last_end} : std::vector{rank()});
  for (int stage = 0; stage < last; ++stage) {
    const int from = rank_at_stage(stage), to = rank_at_stage(stage + 1);
    if (from == to || !(holds_stage(stage) || holds_stage(stage + 1))) continue;
    for (const Way way : {Way::forward, Way::backward}) {
      channels_.emplace(std::pair{stage, way},
                        world_.group(axis_name(Axis::pp), std::vector{from, to}));
    }
  }
}

const comm::Group& ParallelContext::stage_channel(int stage, Way way) const {
  const auto found = channels_.find({stage, way});
  COLOSSAL_CHECK(found != channels_.end(), "no channel between stages {} and {} at rank {}", stage,
                 stage + 1, rank());
  return found->second;
}

}  // namespace colossal
