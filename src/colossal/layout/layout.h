// Says which rank holds which elements of a tensor. Only this file has that arithmetic; algorithms
// ask it.
//
// Along each axis of a grid of ranks a tensor is
//   sharded     on one of its dims: each rank has a part of the dim's indices;
//   partial     each rank has a term of a sum: the tensor is the sum over the axis;
//   replicated  else: all ranks have the same.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "colossal/layout/runs.h"
#include "colossal/layout/segments.h"
#include "colossal/mesh/rank_grid.h"

namespace colossal {

// How the indices of a dim are cut over the n ranks of an axis, in whole units. Parts may be uneven
// and empty, as those of Partition.
enum class Cut {
  contiguous,  // n parts, one for each
  zigzag,      // 2n pieces: rank r has pieces r and 2n - 1 - r. Of a causal attention's positions,
               // each rank so has an equal share of the work
};

class Layout {
 public:
  struct Shard {
    int axis = 0;
    Cut cut = Cut::contiguous;
    bool operator==(const Shard&) const = default;
  };

  // A dim of the tensor. Each of its segments is cut for itself: first over the first axis; what
  // that leaves each rank, taken as one line, is cut over the second, and so on. So the parts
  // along the last axis make up together what a rank would have without that axis, whatever the
  // sizes.
  struct Dim {
    std::vector<Segment> segments;
    std::vector<Shard> shards = {};
    bool operator==(const Dim&) const = default;
    int64_t size() const;
  };

  // InternalError if an axis has two uses. Axes of one rank are left out: nothing differs along
  // them.
  Layout(RankGrid grid, std::vector<Dim> dims, const AxisSet& partial_axes = {});

  const RankGrid& grid() const { return grid_; }
  const std::vector<Dim>& dims() const { return dims_; }
  int num_dims() const { return static_cast<int>(dims_.size()); }
  std::vector<int64_t> shape() const;  // of the global tensor

  // The indices of one dim, or of all dims, that a rank holds, as nn::Placement has them.
  const Runs& held(int rank, int dim) const;
  std::vector<Runs> held(int rank) const;
  std::vector<int64_t> local_shape(int rank) const;
  int64_t local_numel(int rank) const;

  // The first rank that holds an element of the global tensor.
  int owner(std::span<const int64_t> index) const;
  // Where the element is in the flattened tensor of `rank`; nothing: elsewhere.
  std::optional<int64_t> offset(int rank, std::span<const int64_t> index) const;

  const AxisSet& sharded_axes() const { return sharded_axes_; }
  const AxisSet& partial_axes() const { return partial_axes_; }
  AxisSet replicated_axes() const;  // of more than one rank
  // Ranks that hold the same elements differ only along replicated and partial axes. Returns which
  // of them `rank` is, not counting axes in `summed` (for an nn::Placement: the reduction axes).
  // The first of them counts for all.
  int replica(int rank, const AxisSet& summed = {}) const;
  int num_replicas(const AxisSet& summed = {}) const;

  // The layout of the gradient before any sum: where the tensor is replicated, each rank has the
  // term that its own use gives; where it is partial, all have the whole gradient.
  Layout conjugate() const;
  // The axes over which the gradient of a parameter has to be summed, when ranks along
  // `different_work` see different samples, tokens or channels, and along all others do the same.
  AxisSet reduction_axes(const AxisSet& different_work) const;

  bool operator==(const Layout& other) const;

 private:
  int part_of(int rank, int dim) const;  // index into parts_[dim]

  RankGrid grid_;
  std::vector<Dim> dims_;
  AxisSet partial_axes_;
  AxisSet sharded_axes_;
  std::vector<std::vector<Runs>> parts_;  // of each dim, by the coordinates along its shards' axes
};

// "dim 0 over dp, tp; dim 1 over sp in zigzag; partial over ep"; "replicated".
std::string describe(const Layout& layout);

}  // namespace colossal
