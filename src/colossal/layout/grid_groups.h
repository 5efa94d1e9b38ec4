// The communication groups of a grid of ranks.
#pragma once

#include <map>

#include "colossal/comm/group.h"
#include "colossal/comm/world.h"
#include "colossal/mesh/rank_grid.h"

namespace colossal {

// This rank's groups along every set of axes of more than one rank.
class GridGroups {
 public:
  // Collective over the ranks of `all`. They must be the ranks of the grid in its order: the
  // world's, or a tp group's whose factors are the grid's axes.
  GridGroups(comm::World& world, const RankGrid& grid, const comm::Group& all);

  const RankGrid& grid() const { return grid_; }
  int rank() const { return rank_; }  // within the grid
  // Ranks that differ from this one along `axes` only, in the order of RankGrid::ranks_along. In
  // the ledger: RankGrid::joined_name.
  const comm::Group& along(const AxisSet& axes) const { return groups_.at(axes); }

 private:
  RankGrid grid_;
  int rank_;
  std::map<AxisSet, comm::Group> groups_;
};

}  // namespace colossal
