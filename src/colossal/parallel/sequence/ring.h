// Sequence parallelism by rotation (H. Liu et al., "Ring Attention with Blockwise Transformers",
// 2023; zigzag: the balanced order of Z. Zhu's ring-flash-attention): each rank has its share of
// the positions of every sequence, and the keys and values of all ranks go around the ring of
// ranks.
#pragma once

#include "colossal/comm/group.h"
#include "colossal/nn/dense_builder.h"

namespace colossal::parallel {

// Attention over a sequence shared by the ranks of `group`, which must outlive it: rank r has the
// positions of part r of a zigzag (see zigzag_runs). Each rank attends to one block of keys and
// values at a time while it receives the next; a block is one rank's positions. In backward the
// blocks go around again; each block's gradients, in the accumulation type, follow one hop behind
// and end on the rank that owns the block. All ranks of `group` compute the same heads. If key
// heads serve different numbers of query heads (see nn::AttentionHeads), keys and values are sent
// once per query head.
nn::MakeAttention make_ring_attention(const comm::Group& group);

}  // namespace colossal::parallel
