// RankGrid: the global ranks 0, 1, ... of a job as a grid with named axes, for computing
// coordinates and the members of groups. The grid of a job has the axes pp, dp, sp and tp; tp is
// the innermost. An axis may be split into factors, which are then the axes of the grid. Their
// names begin with the name of the split axis: 2d tensor parallelism over tp = q x q ranks has
// tp.row and tp.column.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "colossal/mesh/strategy.h"

namespace colossal {

struct GridAxis {
  std::string name;
  int size = 1;  // number of ranks along the axis
  bool operator==(const GridAxis&) const = default;
};

// Indices of axes in RankGrid::axes(), ascending.
using AxisSet = std::vector<int>;

class RankGrid {
 public:
  // axes: from the outermost to the innermost; ranks r and r + 1 are neighbours along the last
  // axis. The number of ranks is the product of the sizes. Throws InternalError if a size is below
  // 1.
  explicit RankGrid(std::vector<GridAxis> axes);
  // Makes the grid of a job with the axes pp, strategy.data_axes() (dp and sp, or their factors)
  // and strategy.tensor_axes() (tp, or its factors), in this order.
  explicit RankGrid(const Strategy& strategy);

  const std::vector<GridAxis>& axes() const { return axes_; }
  int num_axes() const { return static_cast<int>(axes_.size()); }
  int num_ranks() const { return num_ranks_; }
  int size(int axis) const { return axes_[axis].size; }
  // Returns the index of the axis with this name. Throws InternalError if there is none.
  int axis(std::string_view name) const;
  // Returns the axes with these names; for the name of a split axis, all its factors. Throws
  // InternalError for an unknown name.
  AxisSet axes_of(const std::vector<std::string_view>& names) const;

  // Returns the coordinate of `rank` along an axis, from 0.
  int coordinate(int rank, int axis) const { return rank / strides_[axis] % size(axis); }
  // Returns the combined coordinate of `rank` along `axes`: its index in ranks_along(rank, axes).
  int coordinate(int rank, const AxisSet& axes) const;
  // Returns the difference between the ranks of neighbours along an axis.
  int stride(int axis) const { return strides_[axis]; }
  // Returns `rank` and the ranks that differ from it only along `axes`, ascending.
  std::vector<int> ranks_along(int rank, const AxisSet& axes) const;
  // Returns a name for `axes`, which the ledger uses: the names of the axes, joined by "+"
  // ("dp+sp"). Axes with one rank are left out; but if all of `axes` have one rank, the result is
  // the name of the first. The name of a factor is replaced by that of its split axis ("tp") if
  // `axes` has all factors of that axis, not counting factors with one rank. Returns "" if `axes`
  // is empty.
  std::string joined_name(const AxisSet& axes) const;

  // Returns a grid of the same ranks in which the axis named `axis` is replaced by `factors`,
  // outermost first. Throws InternalError unless the product of their sizes is the size of the
  // axis.
  RankGrid split(std::string_view axis, const std::vector<GridAxis>& factors) const;

  bool operator==(const RankGrid&) const = default;

 private:
  // Returns the first `depth` parts of an axis's name: "tp.column" for "tp.column.kv" and depth 2.
  std::string_view ancestor(int axis, size_t depth) const;

  std::vector<GridAxis> axes_;
  std::vector<int> strides_;
  int num_ranks_ = 1;
};

}  // namespace colossal
