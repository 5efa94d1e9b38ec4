// Makes the communication groups of a grid of ranks, for redistribute().
#pragma once

#include <map>

#include "colossal/comm/group.h"
#include "colossal/comm/world.h"
#include "colossal/mesh/rank_grid.h"

namespace colossal {

// This rank's communication groups in a grid: one group for each non-empty set of axes that all
// have more than one rank.
class GridGroups {
 public:
  // Makes the groups. Collective over the ranks of `all`. all: the ranks of the grid, in the grid's
  // order: the whole world, or a tp group if the axes of the grid are the factors of tp. Throws
  // InternalError if all.size() is not grid.num_ranks().
  GridGroups(comm::World& world, const RankGrid& grid, const comm::Group& all);

  const RankGrid& grid() const { return grid_; }
  int rank() const { return rank_; }  // this rank's number within the grid
  // Returns the group of this rank and the ranks that differ from it only along `axes`, in the
  // order of RankGrid::ranks_along(). axes: ascending, each with more than one rank; else throws
  // std::out_of_range. The ledger names the group RankGrid::joined_name(axes).
  const comm::Group& along(const AxisSet& axes) const { return groups_.at(axes); }

 private:
  RankGrid grid_;
  int rank_;
  std::map<AxisSet, comm::Group> groups_;
};

}  // namespace colossal
