#include "colossal/parallel/collectives.h"

#include <numeric>

#include "colossal/layout/partition.h"
#include "colossal/parallel/saved_group.h"

namespace colossal::parallel {
namespace {

using comm::Reason;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Returns the sum in new memory, because other code may read x.
at::Tensor sum(const at::Tensor& x, const comm::Group& group) {
  return start_sum(x.clone(at::MemoryFormat::Contiguous), group).wait();
}

struct SumForward : torch::autograd::Function<SumForward> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& x, const comm::Group* group) {
    return sum(x, *group);
  }
  static variable_list backward(AutogradContext*, variable_list gradients) {
    return {gradients[0], {}};
  }
};

struct SumBackward : torch::autograd::Function<SumBackward> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const comm::Group* group) {
    save_group(context, *group);
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {sum(gradients[0], saved_group(context)), {}};
  }
};

void save_shares(AutogradContext* context, const Shares& shares) {
  save_group(context, *shares.group);
  context->saved_data["sizes"] = shares.sizes;
  context->saved_data["reason"] = static_cast<int64_t>(shares.reason);
}

Shares saved_shares(AutogradContext* context) {
  return {&saved_group(context), context->saved_data["sizes"].toIntVector(),
          static_cast<Reason>(context->saved_data["reason"].toInt())};
}

// Moves x with `forwards` and its gradient with `backwards`.
using Start = Pending (*)(const at::Tensor& x, const Shares& shares);

template <Start forwards, Start backwards>
struct MoveShares : torch::autograd::Function<MoveShares<forwards, backwards>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Shares& shares) {
    save_shares(context, shares);
    return forwards(x, shares).wait();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {backwards(gradients[0], saved_shares(context)).wait(), {}};
  }
};

Pending rows_here(const at::Tensor& x, const Shares& rows) {
  const Range here = rows.here();
  return {x.narrow(0, here.begin, here.size()).clone(), x, {}};
}

// In the flat buffer of a collective the columns of rank 0 come first, then those of rank 1, and so
// on. Returns a view [num_rows, columns of the rank] for each rank.
std::vector<at::Tensor> column_parts(const at::Tensor& flat, int64_t num_rows,
                                     const Shares& columns) {
  std::vector<at::Tensor> parts;
  int64_t begin = 0;
  for (const int64_t size : columns.sizes) {
    parts.push_back(flat.narrow(0, begin, num_rows * size).view({num_rows, size}));
    begin += num_rows * size;
  }
  return parts;
}

Pending start_gather_columns(const at::Tensor& x, const Shares& columns) {
  const at::Tensor flat = at::empty({x.size(0) * columns.total()}, x.options());
  const std::vector<at::Tensor> parts = column_parts(flat, x.size(0), columns);
  parts[columns.group->rank()].copy_(x);
  comm::all_gather(flat, columns.times(x.size(0)), *columns.group, Reason::tensor);
  return {at::cat(parts, 1), flat, {}};
}

Pending start_sum_to_columns(const at::Tensor& x, const Shares& columns) {
  const at::Tensor flat = at::empty({x.numel()}, x.options());
  const std::vector<at::Tensor> parts = column_parts(flat, x.size(0), columns);
  int64_t begin = 0;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    parts[rank].copy_(x.narrow(1, begin, columns.sizes[rank]));
    begin += columns.sizes[rank];
  }
  const at::Tensor part = at::empty({x.size(0), columns.mine()}, x.options());
  return {part, flat,
          comm::reduce_scatter_async(flat, part.view(-1), columns.times(x.size(0)), *columns.group,
                                     Reason::tensor)};
}

at::Tensor exchanged(const at::Tensor& x, at::IntArrayRef shape, const comm::Group& group) {
  if (group.size() == 1) return x;
  const at::Tensor source = x.contiguous(), received = at::empty(shape, x.options());
  comm::rotate_async(source.view(-1), received.view(-1), group, Reason::tensor).wait();
  return received;
}

struct SwapBetweenTwo : torch::autograd::Function<SwapBetweenTwo> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const std::vector<int64_t>& shape, const comm::Group* group) {
    save_group(context, *group);
    context->saved_data["shape"] = x.sizes().vec();
    return exchanged(x, shape, *group);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {
        exchanged(gradients[0], context->saved_data["shape"].toIntVector(), saved_group(context)),
        {},
        {}};
  }
};

}  // namespace

at::Tensor reduce_from_tensor_parallel(const at::Tensor& x, const comm::Group& group) {
  return SumForward::apply(x, &group);
}

at::Tensor copy_to_tensor_parallel(const at::Tensor& x, const comm::Group& group) {
  return SumBackward::apply(x, &group);
}

Shares Shares::even(const comm::Group& group, int64_t total) {
  return {&group, Partition(total, group.size()).counts()};
}

int64_t Shares::total() const {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
}

Range Shares::here() const {
  const int64_t begin = std::accumulate(sizes.begin(), sizes.begin() + group->rank(), int64_t{0});
  return {begin, begin + mine()};
}

std::vector<int64_t> Shares::times(int64_t elements) const {
  std::vector<int64_t> counts = sizes;
  for (int64_t& count : counts) count *= elements;
  return counts;
}

at::Tensor gather_rows(const at::Tensor& x, const Shares& rows) {
  return MoveShares<start_gather_rows, start_reduce_scatter_rows>::apply(x, rows);
}

at::Tensor reduce_scatter_rows(const at::Tensor& x, const Shares& rows) {
  return MoveShares<start_reduce_scatter_rows, start_gather_rows>::apply(x, rows);
}

at::Tensor take_rows(const at::Tensor& x, const Shares& rows) {
  if (rows.group->size() == 1) return x;
  return MoveShares<rows_here, start_gather_rows>::apply(x, rows);
}

at::Tensor collect_rows(const at::Tensor& x, const Shares& rows) {
  if (rows.group->size() == 1) return x;
  return MoveShares<start_gather_rows, rows_here>::apply(x, rows);
}

at::Tensor gather_columns(const at::Tensor& x, const Shares& columns) {
  if (columns.group->size() == 1) return x;
  return MoveShares<start_gather_columns, start_sum_to_columns>::apply(x, columns);
}

at::Tensor sum_to_columns(const at::Tensor& x, const Shares& columns) {
  if (columns.group->size() == 1) return x;
  return MoveShares<start_sum_to_columns, start_gather_columns>::apply(x, columns);
}

at::Tensor exchange(const at::Tensor& x, const std::vector<int64_t>& shape,
                    const comm::Group& group) {
  if (group.size() == 1) return x;
  return SwapBetweenTwo::apply(x, shape, &group);
}

Pending start_gather_rows(const at::Tensor& x, const Shares& rows) {
  const Range here = rows.here();
  const at::Tensor all = at::empty({rows.total(), x.size(1)}, x.options());
  all.narrow(0, here.begin, here.size()).copy_(x);
  return {all, all,
          comm::all_gather_async(all.view(-1), rows.times(x.size(1)), *rows.group, rows.reason)};
}

Pending start_reduce_scatter_rows(const at::Tensor& x, const Shares& rows) {
  const at::Tensor source = x.contiguous();
  const at::Tensor part = at::empty({rows.mine(), x.size(1)}, x.options());
  return {part, source,
          comm::reduce_scatter_async(source.view(-1), part.view(-1), rows.times(x.size(1)),
                                     *rows.group, rows.reason)};
}

Pending start_sum(const at::Tensor& x, const comm::Group& group) {
  return {x, x, comm::all_reduce_async(x.view(-1), group, Reason::tensor)};
}

// Backends can only sum. Here an all-to-all gives each rank one part of all tensors, the rank
// computes its maximum, and an all-gather distributes the parts: the bytes of a reduce-scatter and
// an all-gather.
void max_over_ranks(const at::Tensor& tensor, const comm::Group& group) {
  const Partition parts(tensor.numel(), group.size());
  const Range mine = parts.range(group.rank());
  const at::Tensor received = at::empty({group.size() * mine.size()}, tensor.options());
  const std::vector<int64_t> receive_counts(group.size(), mine.size());
  comm::all_to_all(tensor, parts.counts(), received, receive_counts, group, Reason::tensor);
  if (!mine.empty()) {
    tensor.narrow(0, mine.begin, mine.size()).copy_(received.view({group.size(), -1}).amax(0));
  }
  comm::all_gather(tensor, parts.counts(), group, Reason::tensor);
}

}  // namespace colossal::parallel
