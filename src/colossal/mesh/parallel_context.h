// The ranks of a job as a grid, and this rank's communication groups along the grid's axes. Passed
// explicitly, never global.
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

  // Collective over all ranks of `world`, which must outlive this object. device: where this rank's
  // tensors are, by default world.device(); meta in a dry run.
  ParallelContext(comm::World& world, const Strategy& strategy);
  ParallelContext(comm::World& world, const Strategy& strategy, at::Device device);

  const Strategy& strategy() const { return strategy_; }
  const RankGrid& mesh() const { return mesh_; }
  at::Device device() const { return device_; }
  comm::World& world() const { return world_; }
  int rank() const { return world_.rank(); }
  // Returns this rank's combined coordinate along these axes.
  int coordinate(const AxisNames& names) const {
    return mesh_.coordinate(rank(), mesh_.axes_of(names));
  }
  int coordinate(Axis axis) const { return coordinate({axis_name(axis)}); }

  // Returns the group of the ranks that differ from this rank only along these axes, in rank order.
  // Throws InternalError for axes that have no group under this strategy; see wanted_groups() in
  // parallel_context.cpp.
  const comm::Group& along(const AxisNames& names) const;
  const comm::Group& group(Axis axis) const { return along({axis_name(axis)}); }
  // Ranks that hold the same parameters and see different data: dp and sp.
  const comm::Group& data_group() const { return along({"dp", "sp"}); }
  // Ranks that hold the same pipeline stages: dp, sp and tp.
  const comm::Group& stage_group() const { return along({"dp", "sp", "tp"}); }
  // The ranks of a stage among which a layer's experts are divided: the axis ep of
  // Strategy::expert_axes(). Their ranks are expert_tp apart. Tokens are sent among them. With ep =
  // 1, this rank alone.
  const comm::Group& expert_group() const { return along_experts({"ep"}); }
  // Ranks that each hold a part of the same experts: the axis expert_tp of Strategy::expert_axes().
  // With expert_tp = 1, this rank alone.
  const comm::Group& expert_parts_group() const { return along_experts({"expert_tp"}); }
  // Ranks that hold the same elements of experts; they route different tokens, also within a tp
  // group. Gradients of experts are summed over them.
  const comm::Group& same_experts_group() const;
  // same_experts_group() together with the ranks that hold the other parts of these experts.
  const comm::Group& same_experts_and_parts_group() const;
  // Returns the ranks over which ZeRO shards: those ranks of `same_parameters` that are in this
  // rank's zero_group, or all of them without a zero_group. same_parameters: the data group, a
  // wider group over which gradients are summed, same_experts_group(), or
  // same_experts_and_parts_group().
  const comm::Group& shard_group(const comm::Group& same_parameters) const;
  // Returns the ranks of `same_parameters` that hold this rank's shard in different zero_groups;
  // without a zero_group, this rank alone.
  const comm::Group& replica_group(const comm::Group& same_parameters) const;
  // Whether this rank holds a stage of the pipeline.
  bool holds_stage(int stage) const { return strategy_.stage_rank(stage) == coordinate(Axis::pp); }
  // The ranks that hold the first and the last stage of this rank's pipeline, if these are two
  // ranks and this rank is one of them; else this rank alone. If the head is tied, both hold its
  // table.
  const comm::Group& tied_table_group() const { return tied_table_group_; }
  // Returns the group of two ranks that carries activations from `stage` to the next stage
  // (forward), or gradients from the next stage to `stage` (backward). The two stages must be on
  // different ranks of pp, and this rank must hold one of them; else throws InternalError. The
  // group carries no other messages.
  enum class Way { forward, backward };
  const comm::Group& stage_channel(int stage, Way way) const;
  // For modes 2d, 2.5d and 3d: this rank and the rank with the last two coordinates along tp
  // swapped, as for the transpose of a matrix. This rank alone if the two coordinates are equal.
  const comm::Group& mirror_group() const { return mirror_; }
  // All ranks, for background work during training: unlike world_group(), no other calls use this
  // group, so background calls need no order relative to them.
  const comm::Group& background_group() const { return background_; }
  // Returns the axis names under which ranks count traffic in the ledger. All ranks return the same
  // names.
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
  RankGrid expert_mesh_;  // the same ranks with axes expert_dp, ep and expert_tp in place of dp, sp
                          // and tp
  at::Device device_;
  std::map<std::string, comm::Group> groups_;  // by joined name of the axes
  // With a zero_group: name of the shard or replica group, by name of the group it divides.
  std::map<std::string, std::string> shard_groups_, replica_groups_;
  comm::Group alone_;
  comm::Group background_;
  comm::Group mirror_;
  comm::Group tied_table_group_;
  std::map<std::pair<int, Way>, comm::Group> channels_;
};

}  // namespace colossal
