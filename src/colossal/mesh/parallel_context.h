// A strategy made live: the mesh and a group for each axis. Passed explicitly, never global.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "colossal/comm/group.h"
#include "colossal/comm/world.h"
#include "colossal/mesh/device_mesh.h"

namespace colossal {

class ParallelContext {
 public:
  // Collective over all ranks of `world`, which must outlive this. Tensors live on the world's
  // device, or, for a dry run, on meta.
  ParallelContext(comm::World& world, const Strategy& strategy);
  ParallelContext(comm::World& world, const Strategy& strategy, at::Device device);

  const Strategy& strategy() const { return strategy_; }
  const DeviceMesh& mesh() const { return mesh_; }
  at::Device device() const { return device_; }
  comm::World& world() const { return world_; }
  int rank() const { return world_.rank(); }
  int coordinate(Axis axis) const { return mesh_.coordinate(rank(), axis); }

  // Ranks along one axis.
  const comm::Group& group(Axis axis) const { return group(std::vector<Axis>{axis}); }
  // Ranks that hold the same parameters and see other data: dp and sp.
  const comm::Group& data_group() const { return group({Axis::dp, Axis::sp}); }
  // Ranks that hold the same of what tensor parallelism leaves whole.
  const comm::Group& data_and_tensor_group() const { return group({Axis::dp, Axis::sp, Axis::tp}); }
  // Ranks that hold the same keys and values: Strategy::key_value_replicas neighbours of tp.
  const comm::Group& data_and_key_value_group() const { return key_value_; }
  // All ranks once more, for what they do together while they train: its calls are in no order with
  // those of the other groups.
  const comm::Group& background_group() const { return background_; }
  // All ranks.
  const comm::Group& world_group() const { return group({Axis::pp, Axis::dp, Axis::sp, Axis::tp}); }

 private:
  const comm::Group& group(const std::vector<Axis>& axes) const;

  comm::World& world_;
  Strategy strategy_;
  DeviceMesh mesh_;
  at::Device device_;
  std::map<std::string, comm::Group> groups_;  // by joined name: one group for the same ranks
  comm::Group background_;
  comm::Group key_value_;
};

}  // namespace colossal
