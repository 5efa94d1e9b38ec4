// Sequence parallelism by rotation (H. Liu et al., "Ring Attention with Blockwise Transformers",
// 2023; zigzag: the balanced order of Z. Zhu's ring-flash-attention): each rank has its share of
// the positions of every sequence, and keys and values go around the ring of ranks.
#pragma once

#include "colossal/comm/group.h"
#include "colossal/nn/dense_builder.h"

namespace colossal::parallel {

// Attention over a sequence shared by the ranks of `group`, which must outlive it: rank r has the
// positions of part r of a zigzag (see zigzag_runs). Each rank sees its queries' keys block by
// block, as they come by; the next block travels while one is computed with. Backward they come by
// once more, followed by their gradients, in the type of the sums, which end at home. Heads are
// whole on every rank. Keys and values travel with the heads that the queries here see; if their
// numbers differ by key head (see nn::AttentionHeads), one travels for each query head.
nn::MakeAttention make_ring_attention(const comm::Group& group);

}  // namespace colossal::parallel
