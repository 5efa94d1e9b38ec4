// Sums of the ranks' tensors, with which backends on the CPU reduce. Terms are added in rank order,
// not in the order of arrival, so all ranks and all runs get the same bits. Over several hosts,
// each host's ranks are summed in rank order, then the hosts' sums (hierarchical_backend.h).
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <span>

#include "colossal/base/cpu_features.h"

namespace colossal::comm {

// Whether values of `type` can be summed into a result of `out_type`: fp32, fp64, bf16, fp16 and
// int64 into the same type; bf16 and fp16 also into fp32; fp32 also into bf16 and fp16.
bool can_sum(at::ScalarType type, at::ScalarType out_type);

// Returns the type in which values of `type` are added: fp32 for bf16 and fp16, otherwise `type`.
at::ScalarType accumulation_type(at::ScalarType type);

// out[i] <- sources[0][i] + sources[1][i] + ..., for 0 <= i < count. sources: at least one, in rank
// order. Each source has `count` elements of `type`, `out` has `count` elements of `out_type`. Adds
// in accumulation_type(type) and rounds the sum to `out_type` once, at the end. `out` may be one of
// the sources if the types are equal. set: must be supported by this CPU; all instruction sets give
// the same bits. Throws InternalError if can_sum() is false.
void sum_in_rank_order(std::span<const void* const> sources, int64_t count, at::ScalarType type,
                       void* out, at::ScalarType out_type,
                       InstructionSet set = widest_instruction_set());

}  // namespace colossal::comm
