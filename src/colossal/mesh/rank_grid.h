// Ranks as a grid of named axes. A job has the axes pp, dp, sp and tp; tp is the innermost. An axis
// may be split into factors, each an axis of the grid whose name begins with that of the split
// axis: 2d tensor parallelism over q x q ranks has tp.row and tp.column.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "colossal/mesh/strategy.h"

namespace colossal {

struct GridAxis {
  std::string name;
  int size = 1;
  bool operator==(const GridAxis&) const = default;
};

// Indices of axes, ascending.
using AxisSet = std::vector<int>;

class RankGrid {
 public:
  // axes: from the outermost to the innermost; ranks r and r + 1 are neighbours along the last
  // axis.
  explicit RankGrid(std::vector<GridAxis> axes);
  // Makes the grid of a job: pp, then strategy.data_axes() and strategy.tensor_axes().
  explicit RankGrid(const Strategy& strategy);

  const std::vector<GridAxis>& axes() const { return axes_; }
  int num_axes() const { return static_cast<int>(axes_.size()); }
  int num_ranks() const { return num_ranks_; }
  int size(int axis) const { return axes_[axis].size; }
  int axis(std::string_view name) const;  // index of an axis; throws InternalError if there is none
  // Returns the axes with these names; for the name of a split axis, all its factors. Throws
  // InternalError for an unknown name.
  AxisSet axes_of(const std::vector<std::string_view>& names) const;

  int coordinate(int rank, int axis) const { return rank / strides_[axis] % size(axis); }
  // Returns the combined coordinate of `rank` along `axes`; the last of them varies fastest.
  int coordinate(int rank, const AxisSet& axes) const;
  // Returns the difference in rank between neighbours along an axis.
  int stride(int axis) const { return strides_[axis]; }
  // Returns the ranks that differ from `rank` only along `axes`, ascending.
  std::vector<int> ranks_along(int rank, const AxisSet& axes) const;
  // Returns the name that the ledger uses: the names of the axes with more than one rank, joined
  // ("dp+sp"). If all factors of an axis are included, its name replaces theirs ("tp"). If all axes
  // have one rank, returns the name of the first.
  std::string joined_name(const AxisSet& axes) const;

  // Returns a grid of the same ranks in which `axis` is replaced by `factors`, outermost first.
  RankGrid split(std::string_view axis, const std::vector<GridAxis>& factors) const;

  bool operator==(const RankGrid&) const = default;

 private:
  // Returns the first `depth` parts of an axis's name: "tp" for "tp.column.kv" and depth 1.
  std::string_view ancestor(int axis, size_t depth) const;

  std::vector<GridAxis> axes_;
  std::vector<int> strides_;
  int num_ranks_ = 1;
};

}  // namespace colossal
