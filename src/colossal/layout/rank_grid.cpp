#include "colossal/layout/rank_grid.h"

#include <algorithm>

#include "colossal/base/error.h"

namespace colossal {

RankGrid::RankGrid(std::vector<GridAxis> axes) : axes_(std::move(axes)), strides_(axes_.size()) {
  for (int axis = num_axes(); axis-- > 0;) {
    COLOSSAL_CHECK(size(axis) > 0, "axis {} of {} ranks", axes_[axis].name, size(axis));
    strides_[axis] = num_ranks_;
    num_ranks_ *= size(axis);
  }
}

namespace {

std::vector<GridAxis> axes_of(const Strategy& strategy) {
  std::vector<GridAxis> axes;
  for (Axis axis : kAxes) axes.push_back({axis_name(axis), strategy.size(axis)});
  return axes;
}

}  // namespace

RankGrid::RankGrid(const Strategy& strategy) : RankGrid(axes_of(strategy)) {}

int RankGrid::axis(std::string_view name) const {
  const auto found = std::find_if(axes_.begin(), axes_.end(),
                                  [&](const GridAxis& axis) { return axis.name == name; });
  COLOSSAL_CHECK(found != axes_.end(), "no axis {} among {}", name, num_axes());
  return static_cast<int>(found - axes_.begin());
}

std::vector<int> RankGrid::ranks_along(int rank, const AxisSet& axes) const {
  std::vector<int> ranks{rank};
  for (int axis : axes) ranks[0] -= coordinate(rank, axis) * stride(axis);
  for (int axis : axes) {
    std::vector<int> more;
    for (int first : ranks) {
      for (int i = 0; i < size(axis); ++i) more.push_back(first + i * stride(axis));
    }
    ranks = std::move(more);
  }
  return ranks;
}

std::string RankGrid::joined_name(const AxisSet& axes) const {
  std::string name;
  for (int axis : axes) name += (name.empty() ? "" : "+") + axes_[axis].name;
  return name;
}

RankGrid RankGrid::split(std::string_view name, const std::vector<GridAxis>& factors) const {
  const int index = axis(name);
  int product = 1;
  for (const GridAxis& factor : factors) product *= factor.size;
  COLOSSAL_CHECK(product == size(index), "axis {} of {} ranks in factors of {}", name, size(index),
                 product);
  std::vector<GridAxis> axes = axes_;
  axes.erase(axes.begin() + index);
  axes.insert(axes.begin() + index, factors.begin(), factors.end());
  return RankGrid(std::move(axes));
}

}  // namespace colossal
