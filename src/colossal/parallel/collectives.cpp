#include "colossal/parallel/collectives.h"

#include "colossal/parallel/saved_group.h"

namespace colossal::parallel {
namespace {

using comm::Reason;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A sum of its own memory: others may read x.
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

// One way forward, the other way backward.
using Start = Pending (*)(const at::Tensor& x, const RowSharding& sharding);

template <Start forwards, Start backwards>
struct MoveRows : torch::autograd::Function<MoveRows<forwards, backwards>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const RowSharding& sharding) {
    save_group(context, *sharding.group);
    context->saved_data["rows"] = sharding.rows;
    return forwards(x, sharding).wait();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const RowSharding sharding{&saved_group(context), context->saved_data["rows"].toInt()};
    return {backwards(gradients[0], sharding).wait(), {}};
  }
};

std::vector<int64_t> elements(const Partition& rows, int64_t features) {
  std::vector<int64_t> counts = rows.counts();
  for (int64_t& count : counts) count *= features;
  return counts;
}

}  // namespace

at::Tensor sum_forward(const at::Tensor& x, const comm::Group& group) {
  return SumForward::apply(x, &group);
}

at::Tensor sum_backward(const at::Tensor& x, const comm::Group& group) {
  return SumBackward::apply(x, &group);
}

at::Tensor gather_rows(const at::Tensor& x, const RowSharding& sharding) {
  return MoveRows<start_gather_rows, start_sum_to_rows>::apply(x, sharding);
}

at::Tensor sum_to_rows(const at::Tensor& x, const RowSharding& sharding) {
  return MoveRows<start_sum_to_rows, start_gather_rows>::apply(x, sharding);
}

Pending start_gather_rows(const at::Tensor& x, const RowSharding& sharding) {
  const Range here = sharding.here();
  const at::Tensor all = at::empty({sharding.rows, x.size(1)}, x.options());
  all.narrow(0, here.begin, here.size()).copy_(x);
  return {all, all,
          comm::all_gather_async(all.view(-1), elements(sharding.partition(), x.size(1)),
                                 *sharding.group, Reason::tensor)};
}

Pending start_sum_to_rows(const at::Tensor& x, const RowSharding& sharding) {
  const at::Tensor source = x.contiguous();
  const at::Tensor part = at::empty({sharding.here().size(), x.size(1)}, x.options());
  return {part, source,
          comm::reduce_scatter_async(source.view(-1), part.view(-1),
                                     elements(sharding.partition(), x.size(1)), *sharding.group,
                                     Reason::tensor)};
}

Pending start_sum(const at::Tensor& x, const comm::Group& group) {
  return {x, x, comm::all_reduce_async(x.view(-1), group, Reason::tensor)};
}

// Backends sum only. Each rank finds the largest of its part of the elements, then all get all
// parts: the bytes of a reduce-scatter and an all-gather.
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
