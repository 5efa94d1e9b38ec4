// The communication groups of a grid of ranks.
#pragma once

#include <map>

#include "colossal/comm/group.h"
#include "colossal/comm/world.h"
#include "colossal/mesh/rank_grid.h"

namespace colossal {

// This rank's communication groups, one for every set of axes that have more than one rank.
class GridGroups {
 public:
  // Collective over the ranks of `all`. `all` must contain the ranks of the grid in the grid's
  // order: either the world, or a tp group if the grid's axes are the factors of tp.
  GridGroups(comm::World& world, const RankGrid& grid, const comm::Group& all);

  const RankGrid& grid() const { return grid_; }
  int rank() const { return rank_; }  // within the grid
  // Returns the group of the ranks that differ from this rank only along `axes`, in the order of
  // RankGrid::ranks_along. The ledger names the group by RankGrid::joined_name.
  const comm::Group& along(const AxisSet& axes) const { return groups_.at(axes); }

 private:
  RankGrid grid_;
  int rank_;
  std::map<AxisSet, comm::Group> groups_;
};

}  // namespace colossal
