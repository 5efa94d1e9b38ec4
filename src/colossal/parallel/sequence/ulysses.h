// Sequence parallelism by all-to-all (S. A. Jacobs et al., "DeepSpeed Ulysses", 2023): outside
// attention, a rank has its share of the positions of every sequence; within attention, it has all
// positions of its share of the heads.
#pragma once

#include "colossal/comm/group.h"
#include "colossal/nn/dense_builder.h"

namespace colossal::parallel {

// Attention over a sequence shared by the ranks of `group`, which must outlive it: rank r has the
// positions of part r of a Partition. Queries, keys and values are sent to the ranks that compute
// their heads, and the results are sent back. A key head goes to every rank whose query heads use
// it.
nn::MakeAttention make_ulysses_attention(const comm::Group& group);

}  // namespace colossal::parallel
