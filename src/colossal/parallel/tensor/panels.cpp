#include "colossal/parallel/tensor/panels.h"

#include <ATen/ATen.h>

namespace colossal::parallel {

Panels::Panels(const at::Tensor& mine, std::vector<std::vector<int64_t>> shapes,
               const comm::Group& group)
    : mine_(mine.contiguous()), shapes_(std::move(shapes)), group_(group) {
  start();
}

at::Tensor Panels::next() {
  const at::Tensor panel = under_way_.wait();
  start();
  return panel;
}

void Panels::start() {
  under_way_ = {};
  if (next_ == group_.size()) return;
  const int root = next_++;
  const at::Tensor panel =
      root == group_.rank() ? mine_ : at::empty(shapes_[root], mine_.options());
  under_way_ = {panel, panel, {}};
  if (panel.numel() == 0) return;
  under_way_.work = comm::broadcast_async(panel.view(-1), root, group_, comm::Reason::tensor);
}

void PartialSums::send(const at::Tensor& partial) {
  under_way_.wait();
  const int rank = next_++;
  const bool here = rank == group_.rank();
  const at::Tensor source = partial.contiguous();
  const at::Tensor sum = here ? at::empty_like(source) : at::empty({0}, source.options());
  if (here) mine_ = sum;
  under_way_ = {sum, source, {}};
  if (source.numel() == 0) return;
  std::vector<int64_t> counts(group_.size(), 0);
  counts[rank] = source.numel();
  under_way_.work = comm::reduce_scatter_async(source.view(-1), sum.view(-1), counts, group_,
                                               comm::Reason::tensor);
}

at::Tensor PartialSums::wait() {
  under_way_.wait();
  return mine_;
}

}  // namespace colossal::parallel
