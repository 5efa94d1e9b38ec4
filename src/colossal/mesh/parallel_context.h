// The mesh of a strategy, and the communication groups of its axes. Passed explicitly, never
// global.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colossal/comm/group.h"
#include "colossal/comm/world.h"
#include "colossal/mesh/rank_grid.h"

namespace colossal {

class ParallelContext {
 public:
  using AxisNames = std::vector<std::string_view>;

  // Collective over all ranks of `world`, which must outlive this. Tensors live on the world's
  // device, or, for a dry run, on meta.
  ParallelContext(comm::World& world, const Strategy& strategy);
  ParallelContext(comm::World& world, const Strategy& strategy, at::Device device);

  const Strategy& strategy() const { return strategy_; }
  const RankGrid& mesh() const { return mesh_; }
  at::Device device() const { return device_; }
  comm::World& world() const { return world_; }
  int rank() const { return world_.rank(); }
  // This rank's place along these axes together.
  int coordinate(const AxisNames& names) const {
    return mesh_.coordinate(rank(), mesh_.axes_of(names));
  }
  int coordinate(Axis axis) const { return coordinate({axis_name(axis)}); }

  // Ranks that differ from this one along these axes only, in rank order. InternalError for axes
  // for which the strategy has no use, see parallel_context.cpp.
  const comm::Group& along(const AxisNames& names) const;
  const comm::Group& group(Axis axis) const { return along({axis_name(axis)}); }
  // Ranks that hold the same parameters and see other data: dp and sp.
  const comm::Group& data_group() const { return along({"dp", "sp"}); }
  // Ranks that hold the same stages of the pipeline: dp, sp and tp.
  const comm::Group& stage_group() const { return along({"dp", "sp", "tp"}); }
  // Experts regroup the ranks of a stage. Those that share out a layer's experts, as neighbours as
  // expert_tp allows: tokens travel among them.
  const comm::Group& expert_group() const { return along_experts({"ep"}); }
  // Those that have a part each of the same experts.
  const comm::Group& expert_parts_group() const { return along_experts({"expert_tp"}); }
  // Those that hold the same elements of experts and see other tokens, whatever tp is: gradients of
  // experts are summed over these.
  const comm::Group& same_experts_group() const;
  // ... and those that have other parts of these experts.
  const comm::Group& same_experts_and_parts_group() const;
  // Returns the ranks over which a ZeRO stage shards: of `same_parameters` (the data group, a wider
  // group whose gradients are summed, or one of the two above) those in this rank's zero_group;
  // all of them without a zero_group.
  const comm::Group& shard_group(const comm::Group& same_parameters) const;
  // Those of `same_parameters` with the same share in different zero_groups.
  const comm::Group& replica_group(const comm::Group& same_parameters) const;
  // Whether a stage of the pipeline is on this rank.
  bool holds_stage(int stage) const { return strategy_.stage_rank(stage) == coordinate(Axis::pp); }
  // This rank and the one that holds the other end of the pipeline, where this one holds an end and
  // not both: they share the table of a tied head. Else this rank alone.
  const comm::Group& ends_group() const { return ends_; }
  // Returns the group that carries activations from a stage to the next, or gradients back, if the
  // two are on different ranks of pp, one of which is this. It carries messages of this border and
  // direction only, in order.
  enum class Way { forward, backward };
  const comm::Group& stage_channel(int stage, Way way) const;
  // Two-dimensional and higher modes: this rank and the one whose last two coordinates of tp are
  // these, swapped; where they are equal this rank alone.
  const comm::Group& mirror_group() const { return mirror_; }
  // All ranks once more, for work beside training: its calls have no order with those of other
  // groups.
  const comm::Group& background_group() const { return background_; }
  // Names under which some rank may book traffic, the same on all ranks.
  std::vector<std::string> ledger_axes() const;
  // All ranks.
  const comm::Group& world_group() const { return along({"pp", "dp", "sp", "tp"}); }

 private:
  const comm::Group& make_group(const RankGrid& grid, const AxisNames& names);
  const comm::Group& make_group(const RankGrid& grid, const AxisSet& axes);
  const comm::Group& along_experts(const AxisNames& names) const;
  void make_shard_groups();
  void make_expert_groups();
  void make_mirror_group();
  void make_pipeline_groups();
  int rank_at_stage(int stage) const;

  comm::World& world_;
  Strategy strategy_;
  RankGrid mesh_;
  RankGrid expert_mesh_;  // the same ranks with the axes of experts in place of dp, sp and tp
  at::Device device_;
  std::map<std::string, comm::Group> groups_;  // by joined name: one group for the same ranks
  // With a zero_group, by name of what they are part of.
  std::map<std::string, std::string> shard_groups_, replica_groups_;
  comm::Group alone_;
  comm::Group background_;
  comm::Group mirror_;
  comm::Group ends_;
  std::map<std::pair<int, Way>, comm::Group> channels_;
};

}  // namespace colossal
