// Ranks as a grid of named axes. Those of a job are pp, dp, sp and tp, tp innermost; an axis may be
// the product of factors, whose names begin with its own: two-dimensional tensor parallelism over q
// x q ranks has tp.row and tp.column.
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

// Indices of axes of a grid, ascending.
using AxisSet = std::vector<int>;

class RankGrid {
 public:
  // Axes go from the outermost to the innermost: rank r and rank r + 1 differ along the last one.
  explicit RankGrid(std::vector<GridAxis> axes);
  // The mesh of a job: pp, and the factors that Strategy gives for dp, sp and tp.
  explicit RankGrid(const Strategy& strategy);

  const std::vector<GridAxis>& axes() const { return axes_; }
  int num_axes() const { return static_cast<int>(axes_.size()); }
  int num_ranks() const { return num_ranks_; }
  int size(int axis) const { return axes_[axis].size; }
  int axis(std::string_view name) const;  // its index; InternalError if there is none
  // The axes of these names, or their factors; InternalError if a name has none.
  AxisSet axes_of(const std::vector<std::string_view>& names) const;

  int coordinate(int rank, int axis) const { return rank / strides_[axis] % size(axis); }
  // Its place among the ranks along `axes`.
  int coordinate(int rank, const AxisSet& axes) const;
  // How far apart in rank neighbours along an axis are.
  int stride(int axis) const { return strides_[axis]; }
  // The ranks that differ from `rank` along `axes` only, ascending.
  std::vector<int> ranks_along(int rank, const AxisSet& axes) const;
  // How the ledger names them: axes of more than one rank, joined ("dp+sp"), all factors of an axis
  // by its own name ("tp"); if all are 1, the first.
  std::string joined_name(const AxisSet& axes) const;

  // The same ranks with one axis taken as the product of `factors`, outermost first.
  RankGrid split(std::string_view axis, const std::vector<GridAxis>& factors) const;

  bool operator==(const RankGrid&) const = default;

 private:
  // The axis itself, or what it is a factor of, `depth` names deep: "tp" of "tp.column.kv" at 1.
  std::string_view ancestor(int axis, size_t depth) const;

  std::vector<GridAxis> axes_;
  std::vector<int> strides_;
  int num_ranks_ = 1;
};

}  // namespace colossal
