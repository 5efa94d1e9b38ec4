#include "colossal/layout/grid_groups.h"

#include <algorithm>

#include "colossal/base/error.h"

namespace colossal {

GridGroups::GridGroups(comm::World& world, const RankGrid& grid, const comm::Group& all)
    : grid_(grid), rank_(all.rank()) {
  COLOSSAL_CHECK(all.size() == grid.num_ranks(), "a group of {} ranks, a grid of {}", all.size(),
                 grid.num_ranks());
  for (unsigned set = 1; set < 1U << grid.num_axes(); ++set) {
    AxisSet axes;
    for (int axis = 0; axis < grid.num_axes(); ++axis) {
      if (set >> axis & 1U) axes.push_back(axis);
    }
    if (std::any_of(axes.begin(), axes.end(), [&](int axis) { return grid.size(axis) == 1; })) {
      continue;
    }
    std::vector<int> ranks;
    for (int rank : grid.ranks_along(rank_, axes)) ranks.push_back(all.ranks()[rank]);
    groups_.emplace(axes, world.group(grid.joined_name(axes), ranks));
  }
}

}  // namespace colossal
