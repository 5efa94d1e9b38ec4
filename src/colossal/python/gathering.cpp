#include "colossal/python/gathering.h"

#include <ATen/ATen.h>

#include <string_view>
#include <vector>

#include "colossal/comm/law.h"
#include "colossal/python/reduction.h"

namespace colossal::python {
namespace {

std::vector<int64_t> equal_counts(const comm::Group& group, int64_t count) {
  return std::vector<int64_t>(group.size(), count);
}

// Returns counts of zero but for `place`.
std::vector<int64_t> counts_at(const comm::Group& group, int64_t place, int64_t count) {
  std::vector<int64_t> counts = equal_counts(group, 0);
  counts[place] = count;
  return counts;
}

// parts <- the inputs of all ranks, where counts[rank] elements are in the part of a rank.
void gather_parts(const at::Tensor& parts, const at::Tensor& input,
                  const std::vector<int64_t>& counts, const comm::Group& group) {
  const int64_t begin = comm::offsets_of(counts)[group.rank()];
  const at::Tensor own = parts.narrow(0, begin, counts[group.rank()]);
  if (own.const_data_ptr() != input.const_data_ptr() || !input.is_contiguous()) {
    own.copy_(input.reshape(-1));
  }
  comm::all_gather(parts, counts, group, kReason);
}

}  // namespace

void broadcast(const at::Tensor& tensor, int root, const comm::Group& group) {
  // From this size on, all ranks reading the root's memory beats a chain of messages.
  constexpr size_t kMessageBytes = size_t{128} << 10;
  const bool shares_memory = std::string_view(group.backend()) == "shm";
  if (!shares_memory || tensor.nbytes() <= kMessageBytes) {
    return comm::broadcast(tensor, root, group, kReason);
  }
  comm::all_gather(tensor, counts_at(group, root, tensor.numel()), group, kReason);
}

void all_gather(const Tensors& outputs, const at::Tensor& input, const comm::Group& group) {
  const std::vector<int64_t> counts = counts_of(outputs);
  const at::Tensor parts = at::empty({comm::total(counts)}, input.options());
  gather_parts(parts, input, counts, group);
  divide_among(parts, outputs);
}

void all_gather(const at::Tensor& output, const at::Tensor& input, const comm::Group& group) {
  const at::Tensor parts = flattened(output);
  gather_parts(parts, input, equal_counts(group, input.numel()), group);
  copy_back(parts, output);
}

void gather(const Tensors& outputs, const at::Tensor& input, int root, const comm::Group& group) {
  const auto counts = outputs.empty() ? equal_counts(group, 0) : counts_of(outputs);
  const at::Tensor parts = at::empty({comm::total(counts)}, input.options());
  comm::all_to_all(flattened(input), counts_at(group, root, input.numel()), parts, counts, group,
                   kReason);
  divide_among(parts, outputs);
}

void scatter(const at::Tensor& output, const Tensors& inputs, int root, const comm::Group& group) {
  const auto counts = inputs.empty() ? equal_counts(group, 0) : counts_of(inputs);
  const at::Tensor parts = inputs.empty() ? at::empty({0}, output.options()) : concatenated(inputs);
  const at::Tensor own = flattened(output);
  comm::all_to_all(parts, counts, own, counts_at(group, root, own.numel()), group, kReason);
  copy_back(own, output);
}

}  // namespace colossal::python
