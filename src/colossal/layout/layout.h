// The layout of a distributed tensor: which rank of a grid holds which elements. Along each axis of
// the grid, a tensor is in one of three states:
//   sharded     one dim of the tensor is divided among the ranks along the axis
//   partial     each rank along the axis holds a term; the tensor is the sum of these terms
//   replicated  all ranks along the axis hold the same elements
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

// How a dim is divided among the n ranks along an axis. Parts consist of whole units
// (Segment::unit); their sizes may differ by one unit, and parts may be empty, as in Partition.
enum class Cut {
  contiguous,  // n parts in order, one per rank
  zigzag,      // 2n pieces; rank r holds pieces r and 2n - 1 - r. Used for the positions of
               // sequences, since it balances the work of causal attention
};

class Layout {
 public:
  // The division of a dim over one axis.
  struct Shard {
    int axis = 0;  // index of the axis in the grid
    Cut cut = Cut::contiguous;
    bool operator==(const Shard&) const = default;
  };

  // A dim of the tensor. Each segment is divided separately. A segment is first divided over the
  // axis of the first shard. Each of these parts is then divided over the axis of the second shard,
  // and so on. Without shards, the dim is not divided.
  struct Dim {
    std::vector<Segment> segments;
    std::vector<Shard> shards = {};
    bool operator==(const Dim&) const = default;
    int64_t size() const;  // number of indices of the dim
  };

  // partial_axes: the axes along which the tensor is partial. Along all axes that are neither in a
  // shard nor partial, the tensor is replicated. Axes with one rank are dropped from shards and
  // partial_axes, since they have no effect. Throws InternalError if an axis occurs more than once
  // in the shards and partial_axes, or if a dim has no segments.
  Layout(RankGrid grid, std::vector<Dim> dims, const AxisSet& partial_axes = {});

  const RankGrid& grid() const { return grid_; }
  const std::vector<Dim>& dims() const { return dims_; }
  int num_dims() const { return static_cast<int>(dims_.size()); }
  std::vector<int64_t> shape() const;  // of the global tensor

  // Returns the indices of dim `dim` that a rank holds.
  const Runs& held(int rank, int dim) const;
  // Returns the indices of each dim that a rank holds, as for nn::Placement::held.
  std::vector<Runs> held(int rank) const;
  // Return the shape, or the number of elements, of a rank's local tensor.
  std::vector<int64_t> local_shape(int rank) const;
  int64_t local_numel(int rank) const;

  // Returns the lowest rank that holds an element. index: the element's index in the global tensor,
  // one number per dim. Throws InternalError if it is out of range.
  int owner(std::span<const int64_t> index) const;
  // Returns the offset of an element in the flattened local tensor of `rank`; nullopt if `rank`
  // does not hold the element. index: as for owner().
  std::optional<int64_t> offset(int rank, std::span<const int64_t> index) const;

  const AxisSet& sharded_axes() const { return sharded_axes_; }
  const AxisSet& partial_axes() const { return partial_axes_; }
  AxisSet replicated_axes() const;  // without axes with one rank
  // num_copies() returns the number of copies of each element, and copy_index() the index, from 0,
  // of the copy that `rank` has. Ranks along a replicated axis have a copy each. So have ranks
  // along a partial axis: each rank's term counts as a copy. Ranks along the axes `summed` count as
  // one copy together. For a parameter, pass summed = reduction_axes(..), the axes over which
  // gradients are summed: the results are then nn::Placement::num_replicas and
  // nn::Placement::replica.
  int copy_index(int rank, const AxisSet& summed = {}) const;
  int num_copies(const AxisSet& summed = {}) const;

  // Returns the layout of the tensor's gradient as the backward pass computes it, before any
  // communication. The gradient is sharded like the tensor. It is partial along the axes along
  // which the tensor is replicated, since each rank computes the term from its own use of the
  // tensor; conjugate() assumes that the ranks' uses differ along all these axes. It is replicated
  // along the axes along which the tensor is partial.
  Layout conjugate() const;
  // Returns the axes over which the gradient of a parameter with this layout must be summed.
  // different_work: the axes along which ranks compute with different samples, tokens or channels.
  // The result is the replicated axes that are in different_work. Along the other replicated axes,
  // ranks compute the same gradient; conjugate() assumes that there are none.
  AxisSet reduction_axes(const AxisSet& different_work) const;

  bool operator==(const Layout& other) const;

 private:
  int part_of(int rank, int dim) const;  // returns the index of the rank's part in parts_[dim]

  RankGrid grid_;
  std::vector<Dim> dims_;
  AxisSet partial_axes_;
  AxisSet sharded_axes_;
  std::vector<std::vector<Runs>> parts_;  // [dim][part]: the indices of each part
};

// Returns a description for messages, such as "dim 0 over dp, tp; dim 1 over sp in zigzag; partial
// over ep"; "replicated" if the tensor is neither sharded nor partial.
std::string describe(const Layout& layout);

}  // namespace colossal
