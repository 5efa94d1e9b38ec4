#include "colossal/mesh/rank_grid.h"

#include <algorithm>

#include "colossal/base/error.h"

namespace colossal {
namespace {

bool is_or_is_within(std::string_view name, std::string_view outer) {
  return name.starts_with(outer) && (name.size() == outer.size() || name[outer.size()] == '.');
}

std::vector<GridAxis> axes_of_mesh(const Strategy& strategy) {
  std::vector<GridAxis> axes{{axis_name(Axis::pp), strategy.pp}};
  for (const auto& [name, size] : strategy.data_axes()) axes.push_back({name, size});
  for (const auto& [name, size] : strategy.tensor_axes()) axes.push_back({name, size});
  return axes;
}

}  // namespace

RankGrid::RankGrid(std::vector<GridAxis> axes) : axes_(std::move(axes)), strides_(axes_.size()) {
  for (int axis = num_axes(); axis-- > 0;) {
    COLOSSAL_CHECK(size(axis) > 0, "axis {} of {} ranks", axes_[axis].name, size(axis));
    strides_[axis] = num_ranks_;
    num_ranks_ *= size(axis);
  }
}

RankGrid::RankGrid(const Strategy& strategy) : RankGrid(axes_of_mesh(strategy)) {}

int RankGrid::axis(std::string_view name) const {
  const auto found = std::find_if(axes_.begin(), axes_.end(),
                                  [&](const GridAxis& axis) { return axis.name == name; });
  COLOSSAL_CHECK(found != axes_.end(), "no axis {} among {}", name, num_axes());
  return static_cast<int>(found - axes_.begin());
}

AxisSet RankGrid::axes_of(const std::vector<std::string_view>& names) const {
  AxisSet found;
  for (std::string_view name : names) {
    const size_t before = found.size();
    for (int axis = 0; axis < num_axes(); ++axis) {
      if (is_or_is_within(axes_[axis].name, name)) found.push_back(axis);
    }
    COLOSSAL_CHECK(found.size() > before, "no axis {} among {}", name, num_axes());
  }
  std::sort(found.begin(), found.end());
  return found;
}

int RankGrid::coordinate(int rank, const AxisSet& axes) const {
  int place = 0;
  for (int axis : axes) place = place * size(axis) + coordinate(rank, axis);
  return place;
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

std::string_view RankGrid::ancestor(int axis, size_t depth) const {
  const std::string_view name = axes_[axis].name;
  size_t end = 0;
  for (; depth > 0 && end != std::string_view::npos; --depth) end = name.find('.', end + 1);
  return name.substr(0, end);
}

std::string RankGrid::joined_name(const AxisSet& axes) const {
  const auto chosen = [&](int axis) {
    return size(axis) == 1 || std::binary_search(axes.begin(), axes.end(), axis);
  };
  // Returns the outermost name whose axes are all chosen.
  const auto name_of = [&](int axis) {
    size_t depth = 1;
    std::string_view name = ancestor(axis, depth);
    const auto incomplete = [&] {
      for (int other = 0; other < num_axes(); ++other) {
        if (is_or_is_within(axes_[other].name, name) && !chosen(other)) return true;
      }
      return false;
    };
    while (incomplete()) name = ancestor(axis, ++depth);
    return std::string(name);
  };
  std::vector<std::string> names;
  for (int axis : axes) {
    if (size(axis) == 1) continue;
    std::string name = name_of(axis);
    if (names.empty() || names.back() != name) names.push_back(std::move(name));
  }
  if (names.empty()) return axes.empty() ? "" : name_of(axes.front());
  std::string joined = names.front();
  for (size_t i = 1; i < names.size(); ++i) joined += "+" + names[i];
  return joined;
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
