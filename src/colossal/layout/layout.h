// Layout of a tensor: which rank holds which elements. Only this file computes layouts; all other
// code asks it.
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

// How the indices of a dim are cut into parts for the n ranks of an axis. Parts consist of whole
// units (Segment::unit); they may be uneven or empty, as in Partition.
enum class Cut {
  contiguous,  // n parts, one per rank
  zigzag,      // 2n pieces: rank r holds pieces r and 2n - 1 - r. For sharded positions: balances
               // the work of causal attention
};

class Layout {
 public:
  struct Shard {
    int axis = 0;
    Cut cut = Cut::contiguous;
    bool operator==(const Shard&) const = default;
  };

  // A dim of the tensor. Each segment is cut separately: first over the axis of the first shard;
  // then each part, taken as one sequence of indices, is cut over the axis of the second shard, and
  // so on. So, for any sizes, the parts of the last shard, taken together, are what a rank would
  // hold if that shard were removed.
  struct Dim {
    std::vector<Segment> segments;
    std::vector<Shard> shards = {};
    bool operator==(const Dim&) const = default;
    int64_t size() const;
  };

  // partial_axes: the axes along which the tensor is partial. Throws InternalError if an axis
  // occurs twice in the shards and partial_axes, or if a dim has no segments. Axes with one rank
  // are dropped from both, since they have no effect.
  Layout(RankGrid grid, std::vector<Dim> dims, const AxisSet& partial_axes = {});

  const RankGrid& grid() const { return grid_; }
  const std::vector<Dim>& dims() const { return dims_; }
  int num_dims() const { return static_cast<int>(dims_.size()); }
  std::vector<int64_t> shape() const;  // of the global tensor

  // Returns the indices of one dim, or of each dim, that a rank holds (see nn::Placement::held).
  const Runs& held(int rank, int dim) const;
  std::vector<Runs> held(int rank) const;
  std::vector<int64_t> local_shape(int rank) const;
  int64_t local_numel(int rank) const;

  // Returns the lowest rank that holds an element. index: the element's index in the global tensor,
  // one number per dim. Throws InternalError if it is out of range.
  int owner(std::span<const int64_t> index) const;
  // Returns the element's offset in the flattened local tensor of `rank`; nullopt if `rank` does
  // not hold it.
  std::optional<int64_t> offset(int rank, std::span<const int64_t> index) const;

  const AxisSet& sharded_axes() const { return sharded_axes_; }
  const AxisSet& partial_axes() const { return partial_axes_; }
  AxisSet replicated_axes() const;  // without axes with one rank
  // Ranks that hold the same indices differ only along replicated and partial axes. Among those
  // that also agree along the axes in `summed`, copy_index() returns the index of `rank`, and
  // num_copies() their number. For nn::Placement, `summed` is reduction_axes(), and only copy 0
  // counts in norms and is written to checkpoints.
  int copy_index(int rank, const AxisSet& summed = {}) const;
  int num_copies(const AxisSet& summed = {}) const;

  // Returns the layout of the tensor's gradient before any reduction. The gradient is sharded as
  // the tensor is; partial along axes where the tensor is replicated, since each rank has the term
  // from its own use of the tensor; and replicated along axes where the tensor is partial.
  Layout conjugate() const;
  // Returns the axes over which the gradient of a parameter with this layout must be summed: the
  // replicated axes in different_work. different_work: the axes along which ranks process different
  // samples, tokens or channels; along all other axes, ranks that hold the same indices repeat the
  // same computation.
  AxisSet reduction_axes(const AxisSet& different_work) const;

  bool operator==(const Layout& other) const;

 private:
  int part_of(int rank, int dim) const;  // index of the rank's part in parts_[dim]

  RankGrid grid_;
  std::vector<Dim> dims_;
  AxisSet partial_axes_;
  AxisSet sharded_axes_;
  std::vector<std::vector<Runs>> parts_;  // per dim, indexed by part_of()
};

// Returns a text for messages, such as "dim 0 over dp, tp; dim 1 over sp in zigzag; partial over
// ep", or "replicated".
std::string describe(const Layout& layout);

}  // namespace colossal
