// The ranks that share a tensor, as a grid of named axes: those of a job's mesh, or factors of them
// (two-dimensional tensor parallelism over q x q ranks has two factors of tp).
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
  // From the outermost axis to the innermost: rank r and rank r + 1 differ in the last one.
  explicit RankGrid(std::vector<GridAxis> axes);
  // pp, dp, sp and tp, ranks as in DeviceMesh.
  explicit RankGrid(const Strategy& strategy);

  const std::vector<GridAxis>& axes() const { return axes_; }
  int num_axes() const { return static_cast<int>(axes_.size()); }
  int num_ranks() const { return num_ranks_; }
  int size(int axis) const { return axes_[axis].size; }
  int axis(std::string_view name) const;  // its index; broken invariant: there is none

  int coordinate(int rank, int axis) const { return rank / strides_[axis] % size(axis); }
  // How far apart in rank neighbours along an axis are.
  int stride(int axis) const { return strides_[axis]; }
  // The ranks that differ from `rank` along `axes` only, ascending.
  std::vector<int> ranks_along(int rank, const AxisSet& axes) const;
  // "dp+sp".
  std::string joined_name(const AxisSet& axes) const;

  // The same ranks with one axis taken as the product of `factors`, outermost first.
  RankGrid split(std::string_view axis, const std::vector<GridAxis>& factors) const;

  bool operator==(const RankGrid&) const = default;

 private:
  std::vector<GridAxis> axes_;
  std::vector<int> strides_;
  int num_ranks_ = 1;
};

}  // namespace colossal
