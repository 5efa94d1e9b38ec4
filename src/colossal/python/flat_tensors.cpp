#include "colossal/python/flat_tensors.h"

#include <ATen/ATen.h>

#include "colossal/base/error.h"

namespace colossal::python {

const at::Tensor& only_one(const Tensors& tensors) {
  check_count("tensors", std::ssize(tensors), 1);
  return tensors[0];
}

void check_same_type(const at::Tensor& input, const at::Tensor& output) {
  if (input.scalar_type() == output.scalar_type()) return;
  throw ConfigError(fmt::format("an input of {} and an output of {}: must have one dtype",
                                c10::toString(input.scalar_type()),
                                c10::toString(output.scalar_type())));
}

void check_count(const char* what, int64_t found, int64_t needed) {
  if (found == needed) return;
  throw ConfigError(fmt::format("{} {}: must be {}", found, what, needed));
}

at::Tensor flattened(const at::Tensor& tensor) {
  return tensor.contiguous().view(-1);
}

void copy_back(const at::Tensor& flat, const at::Tensor& tensor) {
  if (!flat.is_alias_of(tensor)) tensor.copy_(flat.view(tensor.sizes()));
}

std::vector<int64_t> counts_of(const Tensors& tensors) {
  std::vector<int64_t> counts;
  for (const at::Tensor& tensor : tensors) counts.push_back(tensor.numel());
  return counts;
}

at::Tensor concatenated(const Tensors& tensors) {
  Tensors flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.reshape(-1));
  return at::cat(flat);
}

void divide_among(const at::Tensor& flat, const Tensors& tensors) {
  int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
}

}  // namespace colossal::python
