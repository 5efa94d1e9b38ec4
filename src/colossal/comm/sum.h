// Sums over ranks in rank order, independent of timing, so that all ranks get the same bits. Over
// several hosts, each host's ranks are summed in rank order, then the hosts' sums are summed
// (hierarchical_backend.h).
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <span>

#include "colossal/base/cpu_features.h"

namespace colossal::comm {

// Whether values of `type` can be summed to `out_type`: fp32, fp64, bf16, fp16 and int64 to
// themselves, bf16 and fp16 to fp32, and fp32 to bf16 and fp16.
bool can_sum(at::ScalarType type, at::ScalarType out_type);

// Returns the type in which sums are computed: fp32 for bf16 and fp16, else the type itself.
at::ScalarType accumulation_type(at::ScalarType type);

// out[i] <- sources[0][i] + sources[1][i] + ..., for `count` elements of `type` each. fp32, bf16
// and fp16 are summed in fp32, fp64 in fp64, int64 in int64. The sum is rounded to `out_type` once,
// at the end. `out` may be one of the sources if the types are equal. Every instruction set gives
// the same bits.
void sum_in_rank_order(std::span<const void* const> sources, int64_t count, at::ScalarType type,
                       void* out, at::ScalarType out_type,
                       InstructionSet set = widest_instruction_set());

}  // namespace colossal::comm
