// Layout of a tensor: which rank holds which elements. Only this file computes this; algorithms
// query it.
//
// Along each axis of a grid of ranks a tensor is
//   sharded     along one of its dims: each rank holds a part of the dim's indices;
//   partial     each rank holds a term of a sum: the tensor is the sum over the axis;
//   replicated  otherwise: all ranks hold the same elements.
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
// or empty, as those of Partition.
enum class Cut {
  contiguous,  // n parts, one per rank
  zigzag,      // 2n pieces: rank r holds pieces r and 2n - 1 - r. Balances the work of causal
               // attention when positions are sharded
};

class Layout {
 public:
  struct Shard {
    int axis = 0;
    Cut cut = Cut::contiguous;
    bool operator==(const Shard&) const = default;
  };

  // A dim of the tensor. Each segment is cut separately: first over the axis of the first shard;
  // then the indices that a rank holds, taken as one sequence, are cut over the axis of the second
  // shard, and so on. So, for any sizes, the parts along the last axis together are what a rank
  // would hold without that axis.
  struct Dim {
    std::vector<Segment> segments;
    std::vector<Shard> shards = {};
    bool operator==(const Dim&) const = default;
    int64_t size() const;
  };

  // Throws InternalError if an axis is used twice. Uses of axes with one rank are dropped, since
  // they have no effect.
  Layout(RankGrid grid, std::vector<Dim> dims, const AxisSet& partial_axes = {});

  const RankGrid& grid() const { return grid_; }
  const std::vector<Dim>& dims() const { return dims_; }
  int num_dims() const { return static_cast<int>(dims_.size()); }
  std::vector<int64_t> shape() const;  // of the global tensor

  // Returns the indices that a rank holds, of one dim or of each dim, in the form of
  // nn::Placement::held.
  const Runs& held(int rank, int dim) const;
  std::vector<Runs> held(int rank) const;
  std::vector<int64_t> local_shape(int rank) const;
  int64_t local_numel(int rank) const;

  // Returns the lowest rank that holds an element. index: in the global tensor, one number per dim.
  int owner(std::span<const int64_t> index) const;
  // Returns the element's offset in the flattened local tensor of `rank`; nullopt if `rank` does
  // not hold it.
  std::optional<int64_t> offset(int rank, std::span<const int64_t> index) const;

  const AxisSet& sharded_axes() const { return sharded_axes_; }
  const AxisSet& partial_axes() const { return partial_axes_; }
  AxisSet replicated_axes() const;  // with more than one rank
  // Ranks that hold the same elements differ only along replicated and partial axes. replica()
  // returns the index of `rank` among them, num_replicas() their number, both without counting the
  // axes in `summed` (for nn::Placement: the reduction axes). Replica 0 counts in norms and goes to
  // checkpoints.
  int replica(int rank, const AxisSet& summed = {}) const;
  int num_replicas(const AxisSet& summed = {}) const;

  // Returns the layout of the gradient before any reduction: partial where the tensor is
  // replicated, as each rank has the term from its own use of the tensor; replicated where the
  // tensor is partial.
  Layout conjugate() const;
  // Returns the axes over which a parameter's gradient must be summed, if ranks along
  // `different_work` compute different samples, tokens or channels, and ranks along all other axes
  // compute the same.
  AxisSet reduction_axes(const AxisSet& different_work) const;

  bool operator==(const Layout& other) const;

 private:
  int part_of(int rank, int dim) const;  // index into parts_[dim]

  RankGrid grid_;
  std::vector<Dim> dims_;
  AxisSet partial_axes_;
  AxisSet sharded_axes_;
  std::vector<std::vector<Runs>> parts_;  // per dim, by the coordinates along its shards' axes
};

// For messages, such as "dim 0 over dp, tp; dim 1 over sp in zigzag; partial over ep", or
// "replicated".
std::string describe(const Layout& layout);

}  // namespace colossal
