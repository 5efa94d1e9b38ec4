// Who sits where: the ranks of a job as a grid pp x dp x sp x tp, tp innermost.
#pragma once

#include <string>
#include <vector>

#include "colossal/mesh/strategy.h"

namespace colossal {

class DeviceMesh {
 public:
  explicit DeviceMesh(const Strategy& strategy) : strategy_(strategy) {}

  int size() const { return strategy_.world_size(); }
  int coordinate(int rank, Axis axis) const;

  // The ranks that differ from `rank` along `axes` only, in rank order.
  std::vector<int> ranks_along(int rank, const std::vector<Axis>& axes) const;

  // How the ledger names that group: the axes of more than one rank, joined ("dp+sp"); of them all
  // being 1, the first.
  std::string joined_name(const std::vector<Axis>& axes) const;

 private:
  Strategy strategy_;
};

}  // namespace colossal
