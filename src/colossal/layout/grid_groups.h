// The communication groups of a grid of ranks.
#pragma once

#include <map>

#include "colossal/comm/group.h"
#include "colossal/comm/world.h"
#include "colossal/mesh/rank_grid.h"

namespace colossal {

// This rank's communication groups: one for each non-empty set of axes, each with more than one
// rank.
class GridGroups {
 public:
  // Collective over the ranks of `all`. `all` must contain the ranks of the grid in the grid's
  // order: it is the world, or a tp group if the grid's axes are the factors of tp. Throws
  // InternalError if `all` and the grid differ in size.
  GridGroups(comm::World& world, const RankGrid& grid, const comm::Group& all);

  const RankGrid& grid() const { return grid_; }
  int rank() const { return rank_; }  // this rank's number within the grid
  // Returns the group of the ranks that differ from this rank only along `axes`, in the order of
  // RankGrid::ranks_along(). Each of these axes must have more than one rank. The ledger names the
  // group RankGrid::joined_name(axes).
  const comm::Group& along(const AxisSet& axes) const { return groups_.at(axes); }

 private:
  RankGrid grid_;
  int rank_;
  std::map<AxisSet, comm::Group> groups_;
};

}  // namespace colossal
