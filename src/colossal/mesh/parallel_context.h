// ParallelContext: this rank's place in the layout of a job, and this rank's communication groups
// along the axes dp, pp, sp, tp and ep. Nearly all parallel code receives a ParallelContext as an
// argument; there is no global one.
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
  // Names of axes of mesh(), such as {"dp", "sp"} or {"tp.row"}. The name of an axis that is split,
  // such as "tp", stands for all its factors.
  using AxisNames = std::vector<std::string_view>;

  // Makes all groups. Collective over all ranks of `world`, which must outlive this object and have
  // strategy.world_size() ranks. device: where this rank's tensors are, by default world.device();
  // meta in a dry run.
  ParallelContext(comm::World& world, const Strategy& strategy);
  ParallelContext(comm::World& world, const Strategy& strategy, at::Device device);

  const Strategy& strategy() const { return strategy_; }
  // All ranks of the job as a grid with the axes pp, dp, sp and tp (the innermost), or their
  // factors.
  const RankGrid& mesh() const { return mesh_; }
  at::Device device() const { return device_; }
  comm::World& world() const { return world_; }
  int rank() const { return world_.rank(); }  // global rank
  // Returns this rank's combined coordinate along these axes; the innermost axis varies fastest.
  int coordinate(const AxisNames& names) const {
    return mesh_.coordinate(rank(), mesh_.axes_of(names));
  }
  int coordinate(Axis axis) const { return coordinate({axis_name(axis)}); }

  // Returns the group of the ranks that differ from this rank only along these axes, in ascending
  // order of ranks. There are groups along each of pp, dp, sp and tp, along the axes of
  // data_group(), stage_group() and world_group(), and along those factors of tp that the tensor
  // mode uses, alone or combined with each other and with dp and sp (wanted_groups() in
  // parallel_context.cpp). Throws InternalError for other axes.
  const comm::Group& along(const AxisNames& names) const;
  const comm::Group& group(Axis axis) const { return along({axis_name(axis)}); }
  // The same ranks, for tensors in host memory (World::host_group()). axis: pp or tp.
  const comm::Group& host_group(Axis axis) const;
  // The ranks along dp and sp. They have different data. Their parameters are the same, but with
  // ep > 1 or expert_tp > 1 they may hold different experts or parts of experts.
  const comm::Group& data_group() const { return along({"dp", "sp"}); }
  // The ranks along dp, sp and tp: they hold the same pipeline stages.
  const comm::Group& stage_group() const { return along({"dp", "sp", "tp"}); }
  // The ranks among which the experts of a layer are divided: those along the axis ep of
  // Strategy::expert_axes(). The global ranks of neighbours differ by expert_tp. Tokens are sent
  // among these ranks. With ep = 1, this rank alone.
  const comm::Group& expert_group() const { return along_experts({"ep"}); }
  // The ranks that each hold a part of the same experts: those along the axis expert_tp of
  // Strategy::expert_axes(). With expert_tp = 1, this rank alone.
  const comm::Group& expert_parts_group() const { return along_experts({"expert_tp"}); }
  // The ranks that hold the same elements of experts as this rank. They route different tokens,
  // even if they are in one tp group. Gradients of experts are summed over these ranks.
  const comm::Group& same_experts_group() const;
  // The ranks of same_experts_group(), and the ranks that hold the other parts of these experts.
  // They hold the same elements of those adapter factors that are not divided into parts. Gradients
  // of these factors are summed over these ranks.
  const comm::Group& same_experts_and_parts_group() const;

  // shard_group() and replica_group() depend on Strategy::zero_group. If it is n > 0, stage_group()
  // is divided into zero_groups of n * tp ranks: those at n neighbouring positions in dp x sp, at
  // all coordinates along tp. ZeRO shards within a zero_group, so that each zero_group holds every
  // shard. For experts, zero_groups with fewer than Strategy::expert_ranks() ranks are too small to
  // hold all experts: neighbouring ones count as one zero_group of expert_ranks() ranks. If n is 0,
  // there are no zero_groups, and ZeRO shards over all ranks that hold the same parameters.

  // Returns the ranks over which ZeRO shards parameters that are the same on all ranks of
  // `same_parameters`: the ranks of `same_parameters` that are in this rank's zero_group; without a
  // zero_group, all ranks of `same_parameters`. same_parameters: the group over which the gradients
  // of these parameters are summed. It is data_group(), a group along dp, sp and axes of tp,
  // same_experts_group(), or same_experts_and_parts_group().
  const comm::Group& shard_group(const comm::Group& same_parameters) const;
  // Returns the ranks of `same_parameters` that hold the same shard as this rank in different
  // zero_groups; without a zero_group, this rank alone.
  const comm::Group& replica_group(const comm::Group& same_parameters) const;
  // Returns whether this rank holds pipeline stage `stage`.
  bool holds_stage(int stage) const { return strategy_.stage_rank(stage) == coordinate(Axis::pp); }
  // The ranks that hold the first and the last stage of this rank's pipeline, if these are two
  // ranks and this rank is one of them; else this rank alone. If the head is tied to the embedding,
  // both ranks hold the table.
  const comm::Group& tied_table_group() const { return tied_table_group_; }
  // forward: activations go from a stage to the next stage. backward: gradients return.
  enum class Way { forward, backward };
  // Returns the group of the two ranks that hold `stage` and the next stage in this rank's
  // pipeline. Each way has a group of its own, which carries no other messages. Throws
  // InternalError if the two stages are on one rank, or if this rank holds neither.
  const comm::Group& stage_channel(int stage, Way way) const;
  // For the tensor modes 2d, 2.5d and 3d: this rank and the rank whose last two coordinates along
  // tp are this rank's in exchanged order. The two ranks exchange blocks to transpose a matrix.
  // This rank alone if the two coordinates are equal, and in mode 1d.
  const comm::Group& transpose_group() const { return mirror_; }
  // All ranks, for background work during training, such as checkpoints. Its calls take tensors in
  // host memory (World::host_group()). No other calls use this
  // group, so that background calls need no order relative to the calls of the training step.
  const comm::Group& background_group() const { return background_; }
  // Returns the axis names under which ranks count traffic in the ledger. All ranks return the same
  // names.
  std::vector<std::string> ledger_axes() const;
  // All ranks, in ascending order.
  const comm::Group& world_group() const { return along({"pp", "dp", "sp", "tp"}); }

 private:
  // Make the group of this rank along axes of `grid`, unless there is one of this name already.
  const comm::Group& make_group(const RankGrid& grid, const AxisNames& names);
  const comm::Group& make_group(const RankGrid& grid, const AxisSet& axes);
  const comm::Group& along_experts(const AxisNames& names) const;
  void make_shard_groups();
  void make_expert_groups();
  void make_mirror_group();
  void make_pipeline_groups();
  int rank_at_stage(int stage) const;  // global rank that holds `stage` in this rank's pipeline

  comm::World& world_;
  Strategy strategy_;
  RankGrid mesh_;
  // The ranks of mesh_ with the axes expert_dp, ep and expert_tp in place of dp, sp and tp.
  RankGrid expert_mesh_;
  at::Device device_;
  std::map<std::string, comm::Group> groups_;  // by RankGrid::joined_name() of the axes
  // With a zero_group: names in groups_ of the shard group and the replica group, by the name of
  // the group that they divide.
  std::map<std::string, std::string> shard_groups_, replica_groups_;
  std::map<Axis, comm::Group> host_groups_;  // on GPUs; on the CPU, groups_ has the same
  comm::Group alone_;                        // this rank alone
  comm::Group background_;
  comm::Group mirror_;
  comm::Group tied_table_group_;
  std::map<std::pair<int, Way>, comm::Group> channels_;  // by stage and way
};

}  // namespace colossal
