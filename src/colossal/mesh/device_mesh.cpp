#include "colossal/mesh/device_mesh.h"

#include <algorithm>
#include <iterator>

namespace colossal {

int DeviceMesh::coordinate(int rank, Axis axis) const {
  int inner = 1;
  for (auto it = std::rbegin(kAxes); it != std::rend(kAxes); ++it) {
    if (*it == axis) return rank / inner % strategy_.size(axis);
    inner *= strategy_.size(*it);
  }
  return 0;
}

std::vector<int> DeviceMesh::ranks_along(int rank, const std::vector<Axis>& axes) const {
  std::vector<int> ranks;
  for (int other = 0; other < size(); ++other) {
    const bool along = std::all_of(std::begin(kAxes), std::end(kAxes), [&](Axis axis) {
      return std::count(axes.begin(), axes.end(), axis) > 0 ||
             coordinate(other, axis) == coordinate(rank, axis);
    });
    if (along) ranks.push_back(other);
  }
  return ranks;
}

std::string DeviceMesh::joined_name(const std::vector<Axis>& axes) const {
  std::string name;
  for (Axis axis : axes) {
    if (strategy_.size(axis) > 1) name += (name.empty() ? "" : "+") + std::string(axis_name(axis));
  }
  return name.empty() ? axis_name(axes.front()) : name;
}

}  // namespace colossal
