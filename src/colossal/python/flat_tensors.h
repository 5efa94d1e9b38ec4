// Any dense tensors as the flat, contiguous tensors that comm takes, and their checks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::python {

using Tensors = std::vector<at::Tensor>;

// Returns the only tensor of a list; throws ConfigError if there is none or more.
const at::Tensor& only_one(const Tensors& tensors);
// Throws ConfigError unless both tensors have one type.
void check_same_type(const at::Tensor& input, const at::Tensor& output);
// Throws ConfigError unless `found` is `needed`. what: for the message, such as "output elements".
void check_count(const char* what, int64_t found, int64_t needed);

// Returns the elements of `tensor` in row-major order: a view, or a copy if it is not contiguous.
at::Tensor flattened(const at::Tensor& tensor);
// tensor <- flat, unless `flat` is a view of it.
void copy_back(const at::Tensor& flat, const at::Tensor& tensor);

// Returns the numbers of elements.
std::vector<int64_t> counts_of(const Tensors& tensors);
// Returns the tensors' elements, one tensor after the other. tensors: at least one.
at::Tensor concatenated(const Tensors& tensors);
// tensors <- flat, one after the other.
void divide_among(const at::Tensor& flat, const Tensors& tensors);

}  // namespace colossal::python
