// Sequence parallelism by all-to-all (S. A. Jacobs et al., "DeepSpeed Ulysses", 2023). Outside
// attention, each rank has all heads for some positions of every sequence. Within attention, each
// rank has some heads for all positions.
#pragma once

#include "colossal/comm/group.h"
#include "colossal/nn/dense_builder.h"

namespace colossal::parallel {

// Returns a function that makes attention layers over the ranks of `group`, which must outlive the
// layers. Outside attention, rank r has the r-th of the about equal ranges of positions
// (Partition). The layer sends queries, keys and values to the ranks that compute their heads, and
// sends the results back. A K/V head is sent to every rank whose query heads use it.
nn::MakeAttention make_ulysses_attention(const comm::Group& group);

}  // namespace colossal::parallel
