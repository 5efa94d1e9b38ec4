// Helpers for the sources of operators: conversions between the types of LibTorch, of dispatcher
// operators and of the kernels in ops/kernels/.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "colossal/base/random.h"
#include "colossal/base/range.h"
#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops {

// Returns the kernels' enumerator for `type`. Throws InternalError unless `type` is fp64, fp32 or
// bf16.
kernels::ElementType element_type(at::ScalarType type);

// Returns the type in which kernels compute with elements of type `type`: fp64 for fp64, fp32 for
// all other types.
at::ScalarType compute_type(at::ScalarType type);

// Returns the sizes of the tensor as text for messages, such as "[2, 3]".
std::string shape_text(const at::Tensor& tensor);

// Convert random keys to integers, which dispatcher operators accept as arguments, and back.
int64_t pack_key(RandomKey key);
RandomKey unpack_key(int64_t packed);
// Convert ranges to a list of integers and back: begin and end of the first range, begin and end of
// the second range, and so on.
std::vector<int64_t> pack_runs(const std::vector<Range>& runs);
std::vector<Range> unpack_runs(at::IntArrayRef packed);

// The `grain` of a parallel_for() over the elements of a tensor, if an element takes a few
// nanoseconds.
inline constexpr int64_t kElementsPerThread = 1 << 14;

// Returns the rule by which the kernels' dropout drops an element with probability `probability`.
// Throws InternalError unless `probability` is in [0, 1].
kernels::DropoutRule dropout_rule(double probability);

// Returns the arrays of an AdamW update for kernels: the memory of these tensors. working: nullopt
// or undefined if the model uses the master weights themselves.
kernels::AdamWArrays adamw_arrays(const at::Tensor& master,
                                  const std::optional<at::Tensor>& working,
                                  const at::Tensor& first_moment, const at::Tensor& second_moment,
                                  const at::Tensor& gradient);

}  // namespace colossal::ops
