#include "colossal/layout/layout.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/layout/partition.h"
#include "colossal/layout/zigzag.h"

namespace colossal {
namespace {

// Returns part `part` of `parts` of the indices in `runs`, which belong to one segment.
Runs cut(const Runs& runs, int64_t unit, Cut kind, int parts, int part) {
  const int64_t size = num_indices(runs);
  if (kind == Cut::contiguous) return indices_at(runs, Partition(size, parts, unit).range(part));
  Runs both;
  for (const Range& line : zigzag_runs(size, parts, part, unit)) {
    for (const Range& run : indices_at(runs, line)) append(both, run);
  }
  return both;
}

// Returns all parts of a dim; the index of the first axis in dim.shards changes slowest.
std::vector<Runs> parts_of(const Layout::Dim& dim, const RankGrid& grid) {
  std::vector<Runs> parts;
  int64_t begin = 0;
  for (const Segment& segment : dim.segments) {
    std::vector<Runs> of_segment(1);
    append(of_segment[0], {begin, begin + segment.size});
    for (const Layout::Shard& shard : dim.shards) {
      const int size = grid.size(shard.axis);
      std::vector<Runs> finer;
      for (const Runs& part : of_segment) {
        for (int i = 0; i < size; ++i) {
          finer.push_back(cut(part, segment.unit, shard.cut, size, i));
        }
      }
      of_segment = std::move(finer);
    }
    parts.resize(of_segment.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      for (const Range& run : of_segment[i]) append(parts[i], run);
    }
    begin += segment.size;
  }
  return parts;
}

bool contains(const AxisSet& axes, int axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

}  // namespace

int64_t Layout::Dim::size() const {
  int64_t total = 0;
  for (const Segment& segment : segments) total += segment.size;
  return total;
}

Layout::Layout(RankGrid grid, std::vector<Dim> dims, const AxisSet& partial_axes)
    : grid_(std::move(grid)), dims_(std::move(dims)) {
  std::vector<int> uses(grid_.num_axes());
  for (Dim& dim : dims_) {
    for (const Shard& shard : dim.shards) ++uses.at(shard.axis);
    std::erase_if(dim.shards, [&](const Shard& shard) { return grid_.size(shard.axis) == 1; });
    COLOSSAL_CHECK(!dim.segments.empty(), "dim {} has no segments", &dim - dims_.data());
    parts_.push_back(parts_of(dim, grid_));
    for (const Shard& shard : dim.shards) sharded_axes_.push_back(shard.axis);
  }
  for (int axis : partial_axes) {
    ++uses.at(axis);
    if (grid_.size(axis) > 1) partial_axes_.push_back(axis);
  }
  std::sort(partial_axes_.begin(), partial_axes_.end());
  std::sort(sharded_axes_.begin(), sharded_axes_.end());
  for (int axis = 0; axis < grid_.num_axes(); ++axis) {
    COLOSSAL_CHECK(uses[axis] <= 1, "axis {} has {} uses", grid_.axes()[axis].name, uses[axis]);
  }
}

std::vector<int64_t> Layout::shape() const {
  std::vector<int64_t> shape;
  for (const Dim& dim : dims_) shape.push_back(dim.size());
  return shape;
}

int Layout::part_of(int rank, int dim) const {
  int part = 0;
  for (const Shard& shard : dims_[dim].shards) {
    part = part * grid_.size(shard.axis) + grid_.coordinate(rank, shard.axis);
  }
  return part;
}

const Runs& Layout::held(int rank, int dim) const {
  return parts_[dim][part_of(rank, dim)];
}

std::vector<Runs> Layout::held(int rank) const {
  std::vector<Runs> of_dims;
  for (int dim = 0; dim < num_dims(); ++dim) of_dims.push_back(held(rank, dim));
  return of_dims;
}

std::vector<int64_t> Layout::local_shape(int rank) const {
  std::vector<int64_t> shape;
  for (int dim = 0; dim < num_dims(); ++dim) shape.push_back(num_indices(held(rank, dim)));
  return shape;
}

int64_t Layout::local_numel(int rank) const {
  int64_t count = 1;
  for (int dim = 0; dim < num_dims(); ++dim) count *= num_indices(held(rank, dim));
  return count;
}

int Layout::owner(std::span<const int64_t> index) const {
  int rank = 0;
  for (int dim = 0; dim < num_dims(); ++dim) {
    const Range wanted{index[dim], index[dim] + 1};
    const auto found = std::find_if(parts_[dim].begin(), parts_[dim].end(), [&](const Runs& part) {
      return num_common({wanted}, part) == 1;
    });
    COLOSSAL_CHECK(found != parts_[dim].end(), "index {} of dim {} of {}", index[dim], dim,
                   dims_[dim].size());
    int part = static_cast<int>(found - parts_[dim].begin());
    for (auto shard = dims_[dim].shards.rbegin(); shard != dims_[dim].shards.rend(); ++shard) {
      rank += part % grid_.size(shard->axis) * grid_.stride(shard->axis);
      part /= grid_.size(shard->axis);
    }
  }
  return rank;
}

std::optional<int64_t> Layout::offset(int rank, std::span<const int64_t> index) const {
  int64_t offset = 0;
  for (int dim = 0; dim < num_dims(); ++dim) {
    const Runs& here = held(rank, dim);
    const Runs place = places_of({{index[dim], index[dim] + 1}}, here);
    if (place.empty()) return std::nullopt;
    offset = offset * num_indices(here) + place[0].begin;
  }
  return offset;
}

AxisSet Layout::replicated_axes() const {
  AxisSet axes;
  for (int axis = 0; axis < grid_.num_axes(); ++axis) {
    if (grid_.size(axis) > 1 && !contains(sharded_axes_, axis) && !contains(partial_axes_, axis)) {
      axes.push_back(axis);
    }
  }
  return axes;
}

int Layout::copy_index(int rank, const AxisSet& summed) const {
  int copy_index = 0;
  for (int axis = 0; axis < grid_.num_axes(); ++axis) {
    if (contains(sharded_axes_, axis) || contains(summed, axis)) continue;
    copy_index = copy_index * grid_.size(axis) + grid_.coordinate(rank, axis);
  }
  return copy_index;
}

int Layout::num_copies(const AxisSet& summed) const {
  return copy_index(grid_.num_ranks() - 1, summed) + 1;
}

Layout Layout::conjugate() const {
  return Layout(grid_, dims_, replicated_axes());
}

AxisSet Layout::reduction_axes(const AxisSet& different_work) const {
  AxisSet axes = replicated_axes();
  std::erase_if(axes, [&](int axis) { return !contains(different_work, axis); });
  return axes;
}

bool Layout::operator==(const Layout& other) const {
  return grid_ == other.grid_ && dims_ == other.dims_ && partial_axes_ == other.partial_axes_;
}

std::string describe(const Layout& layout) {
  std::vector<std::string> parts;
  const auto name = [&](int axis) { return layout.grid().axes()[axis].name; };
  for (int dim = 0; dim < layout.num_dims(); ++dim) {
    std::vector<std::string> axes;
    for (const Layout::Shard& shard : layout.dims()[dim].shards) {
      axes.push_back(name(shard.axis) + (shard.cut == Cut::zigzag ? " in zigzag" : ""));
    }
    if (!axes.empty()) parts.push_back(fmt::format("dim {} over {}", dim, fmt::join(axes, ", ")));
  }
  std::vector<std::string> partial;
  for (int axis : layout.partial_axes()) partial.push_back(name(axis));
  if (!partial.empty()) parts.push_back(fmt::format("partial over {}", fmt::join(partial, ", ")));
  return parts.empty() ? "replicated" : fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace colossal
