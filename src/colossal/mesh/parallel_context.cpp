#include "colossal/mesh/parallel_context.h"

#include "colossal/base/error.h"

namespace colossal {

ParallelContext::ParallelContext(comm::World& world, const Strategy& strategy)
    : ParallelContext(world, strategy, world.device()) {}

ParallelContext::ParallelContext(comm::World& world, const Strategy& strategy, at::Device device)
    : world_(world), strategy_(strategy), mesh_(strategy), device_(device) {
  COLOSSAL_CHECK(strategy.world_size() == world.size(), "strategy of {} ranks, world of {}",
                 strategy.world_size(), world.size());
  const std::vector<Axis> all(std::begin(kAxes), std::end(kAxes));
  std::vector<std::vector<Axis>> wanted{all, {Axis::dp, Axis::sp}, {Axis::dp, Axis::sp, Axis::tp}};
  for (Axis axis : kAxes) wanted.push_back({axis});
  for (const auto& axes : wanted) {
    const std::string name = mesh_.joined_name(axes);
    if (!groups_.contains(name)) {
      groups_.emplace(name, world.group(name, mesh_.ranks_along(world.rank(), axes)));
    }
  }
  key_value_ = group({Axis::dp, Axis::sp});
  if (strategy.key_value_replicas > 1) {
    const std::vector<Axis> axes{Axis::dp, Axis::sp, Axis::tp};
    const auto replicas_of = [&](int rank) {
      return mesh_.coordinate(rank, Axis::tp) / strategy.key_value_replicas;
    };
    std::vector<int> ranks = mesh_.ranks_along(world.rank(), axes);
    std::erase_if(ranks, [&](int rank) { return replicas_of(rank) != replicas_of(world.rank()); });
    key_value_ = world.group(mesh_.joined_name(axes), ranks);
  }
  background_ = world.group(mesh_.joined_name(all), mesh_.ranks_along(world.rank(), all));
}

const comm::Group& ParallelContext::group(const std::vector<Axis>& axes) const {
  return groups_.at(mesh_.joined_name(axes));
}

}  // namespace colossal
