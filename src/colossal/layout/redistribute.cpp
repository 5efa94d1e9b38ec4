#include "colossal/layout/redistribute.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>

#include "colossal/base/error.h"

namespace colossal {
namespace {

using Step = RedistributionStep;
using Kind = RedistributionStep::Kind;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A block of a tensor: the indices along each of its dims.
using Block = std::vector<Runs>;

// Returns the block, within the part that `rank` holds in layout `here`, that `other_rank` holds in
// layout `other`.
Block block_of(const Layout& here, int rank, const Layout& other, int other_rank) {
  Block block;
  for (int dim = 0; dim < here.num_dims(); ++dim) {
    block.push_back(places_of(other.held(other_rank, dim), here.held(rank, dim)));
  }
  return block;
}

int64_t numel_of(const Block& block) {
  int64_t count = 1;
  for (const Runs& runs : block) count *= num_indices(runs);
  return count;
}

std::vector<int64_t> shape_of(const Block& block) {
  std::vector<int64_t> shape;
  for (const Runs& runs : block) shape.push_back(num_indices(runs));
  return shape;
}

// Calls visit(run in `whole`, the same run in `part`) for all runs; `part` is block `block` of
// `whole`.
template <typename Visit>
void for_each_run(const at::Tensor& whole, const at::Tensor& part, const Block& block,
                  const Visit& visit, int64_t dim = 0) {
  if (dim == whole.dim()) return visit(whole, part);
  int64_t begin = 0;
  for (const Range& run : block[dim]) {
    for_each_run(whole.narrow(dim, run.begin, run.size()), part.narrow(dim, begin, run.size()),
                 block, visit, dim + 1);
    begin += run.size();
  }
}

void copy_out(const at::Tensor& whole, const Block& block, const at::Tensor& part) {
  for_each_run(whole, part, block,
               [](const at::Tensor& from, const at::Tensor& to) { to.copy_(from); });
}

void copy_in(const at::Tensor& whole, const Block& block, const at::Tensor& part) {
  for_each_run(whole, part, block,
               [](const at::Tensor& to, const at::Tensor& from) { to.copy_(from); });
}

// Returns whether the blocks, in order, are exactly the tensor's memory. The blocks of a step are
// disjoint or equal, so it is enough that each begins where the elements before it end.
bool are_in_order(const std::vector<Block>& blocks, at::IntArrayRef shape) {
  int64_t next = 0;
  for (const Block& block : blocks) {
    const int64_t count = numel_of(block);
    if (count == 0) continue;
    int64_t begin = 0;
    for (size_t dim = 0; dim < block.size(); ++dim) {
      begin = begin * shape[dim] + block[dim].front().begin;
    }
    if (begin != next) return false;
    next += count;
  }
  return next == c10::multiply_integers(shape);
}

// Blocks of a tensor, each flattened, one after the other: the buffer of a collective.
class Packed {
 public:
  explicit Packed(std::vector<Block> blocks) : blocks_(std::move(blocks)) {
    for (const Block& block : blocks_) counts_.push_back(numel_of(block));
  }

  const std::vector<int64_t>& counts() const { return counts_; }

  at::Tensor empty(const at::TensorOptions& options) const {
    return at::empty({std::accumulate(counts_.begin(), counts_.end(), int64_t{0})}, options);
  }

  at::Tensor part(const at::Tensor& flat, int index) const {
    const int64_t begin = std::accumulate(counts_.begin(), counts_.begin() + index, int64_t{0});
    return flat.narrow(0, begin, counts_[index]).view(shape_of(blocks_[index]));
  }

  at::Tensor pack(const at::Tensor& whole) const {
    if (are_in_order(blocks_, whole.sizes())) return whole.contiguous().view(-1);
    at::Tensor flat = empty(whole.options());
    for (int i = 0; i < std::ssize(blocks_); ++i) copy_out(whole, blocks_[i], part(flat, i));
    return flat;
  }

  at::Tensor unpack(const at::Tensor& flat, at::IntArrayRef shape) const {
    if (are_in_order(blocks_, shape)) return flat.view(shape);
    at::Tensor whole = at::empty(shape, flat.options());
    for (int i = 0; i < std::ssize(blocks_); ++i) copy_in(whole, blocks_[i], part(flat, i));
    return whole;
  }

 private:
  std::vector<Block> blocks_;
  std::vector<int64_t> counts_;
};

// Carries out one step at this rank.
class Mover {
 public:
  Mover(const Layout& before, const Step& step, const GridGroups& groups, comm::Reason reason)
      : before_(before), after_(step.result), step_(step), groups_(groups), reason_(reason) {}

  at::Tensor move(const at::Tensor& x) const {
    switch (step_.kind) {
      case Kind::slice:
        return slice(x);
      case Kind::spread:
        return spread(x);
      case Kind::all_gather:
        return all_gather(x);
      case Kind::all_to_all:
        return all_to_all(x);
      case Kind::reduce_scatter:
        return reduce_scatter(x);
      case Kind::all_reduce:
        return all_reduce(x);
    }
    COLOSSAL_CHECK(false, "step {}", static_cast<int>(step_.kind));
  }

 private:
  int rank() const { return groups_.rank(); }
  const comm::Group& group() const { return groups_.along(step_.axes); }
  std::vector<int> peers() const { return groups_.grid().ranks_along(rank(), step_.axes); }
  std::vector<int64_t> shape_after() const { return after_.local_shape(rank()); }
  // Returns the blocks of this rank's part before the step that the peers hold after it.
  Packed for_peers() const {
    std::vector<Block> blocks;
    for (int peer : peers()) blocks.push_back(block_of(before_, rank(), after_, peer));
    return Packed(std::move(blocks));
  }
  // Returns the blocks of this rank's part after the step that the peers hold before it.
  Packed from_peers() const {
    std::vector<Block> blocks;
    for (int peer : peers()) blocks.push_back(block_of(after_, rank(), before_, peer));
    return Packed(std::move(blocks));
  }

  at::Tensor slice(const at::Tensor& x) const {
    at::Tensor y = at::empty(shape_after(), x.options());
    copy_out(x, block_of(before_, rank(), after_, rank()), y);
    return y;
  }

  at::Tensor spread(const at::Tensor& x) const {
    at::Tensor y = at::zeros(shape_after(), x.options());
    const AxisSet replicated = before_.replicated_axes();
    // One replica keeps the values and the others get zeros, so that the sum over the ranks is
    // right.
    const bool is_first = std::all_of(step_.axes.begin(), step_.axes.end(), [&](int axis) {
      return groups_.grid().coordinate(rank(), axis) == 0 ||
             !std::binary_search(replicated.begin(), replicated.end(), axis);
    });
    if (is_first) copy_in(y, block_of(after_, rank(), before_, rank()), x);
    return y;
  }

  at::Tensor all_gather(const at::Tensor& x) const {
    const Packed parts = from_peers();
    const at::Tensor flat = parts.empty(x.options());
    parts.part(flat, group().rank()).copy_(x);
    comm::all_gather(flat, parts.counts(), group(), reason_);
    return parts.unpack(flat, shape_after());
  }

  at::Tensor all_to_all(const at::Tensor& x) const {
    const Packed sent = for_peers(), received = from_peers();
    const at::Tensor flat = received.empty(x.options());
    comm::all_to_all(sent.pack(x), sent.counts(), flat, received.counts(), group(), reason_);
    return received.unpack(flat, shape_after());
  }

  at::Tensor reduce_scatter(const at::Tensor& x) const {
    const Packed parts = for_peers();
    at::Tensor y = at::empty(shape_after(), x.options());
    comm::reduce_scatter(parts.pack(x), y.view(-1), parts.counts(), group(), reason_);
    return y;
  }

  at::Tensor all_reduce(const at::Tensor& x) const {
    at::Tensor y = x.clone(at::MemoryFormat::Contiguous);
    comm::all_reduce(y.view(-1), group(), reason_);
    return y;
  }

  const Layout& before_;
  const Layout& after_;
  const Step& step_;
  const GridGroups& groups_;
  comm::Reason reason_;
};

at::Tensor run(const RedistributionPlan& plan, at::Tensor x, const GridGroups& groups,
               comm::Reason reason) {
  COLOSSAL_CHECK(plan.from().grid() == groups.grid(), "a plan over {} ranks, groups over {}",
                 plan.from().grid().num_ranks(), groups.grid().num_ranks());
  COLOSSAL_CHECK(x.sizes() == plan.from().local_shape(groups.rank()),
                 "[{}], of which rank {} has [{}]", fmt::join(x.sizes(), ", "), groups.rank(),
                 fmt::join(plan.from().local_shape(groups.rank()), ", "));
  const Layout* before = &plan.from();
  for (const Step& step : plan.steps()) {
    x = Mover(*before, step, groups, reason).move(x);
    before = &step.result;
  }
  return x;
}

struct Redistribute : torch::autograd::Function<Redistribute> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const Redistribution* redistribution, const GridGroups* groups,
                            comm::Reason reason) {
    context->saved_data["redistribution"] = reinterpret_cast<int64_t>(redistribution);
    context->saved_data["groups"] = reinterpret_cast<int64_t>(groups);
    context->saved_data["reason"] = static_cast<int64_t>(reason);
    return run(redistribution->forward, x, *groups, reason);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto& data = context->saved_data;
    const auto* redistribution =
        reinterpret_cast<const Redistribution*>(data["redistribution"].toInt());
    const auto* groups = reinterpret_cast<const GridGroups*>(data["groups"].toInt());
    const auto reason = static_cast<comm::Reason>(data["reason"].toInt());
    return {run(redistribution->backward, gradients[0], *groups, reason), {}, {}, {}};
  }
};

}  // namespace

at::Tensor redistribute(const at::Tensor& x, const Redistribution& redistribution,
                        const GridGroups& groups, comm::Reason reason) {
  if (redistribution.forward.steps().empty()) return x;
  return Redistribute::apply(x, &redistribution, &groups, reason);
}

}  // namespace colossal
