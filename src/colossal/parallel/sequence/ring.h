// Sequence parallelism by ring attention (H. Liu et al., "Ring Attention with Blockwise
// Transformers", 2023). Each rank has some positions of every sequence. Its queries attend to the
// keys and values of all ranks, which are passed from rank to rank around a ring.
#pragma once

#include "colossal/comm/group.h"
#include "colossal/nn/dense_builder.h"

namespace colossal::parallel {

// Returns a function that makes ring attention layers over the ranks of `group`, which must outlive
// the layers. A sequence is cut into 2 n pieces for n ranks; rank r has the positions of pieces r
// and 2 n - 1 - r (zigzag_runs()), which balance the work of causal attention (as in Z. Zhu's
// ring-flash-attention). All ranks compute the same heads.
//
// A block is the keys and values of one rank's positions. Each rank computes the attention of its
// queries to one block while it receives the next block from the previous rank of the ring. In the
// backward pass the blocks are passed around again. The gradients of a block, in fp32 (fp64 for
// fp64 queries), are passed around one hop behind it and end on the rank that owns the block. If
// this rank's K/V heads serve different numbers of query heads (see
// nn::AttentionHeads::select_used_kv_heads()), keys and values are sent once per query head.
nn::MakeAttention make_ring_attention(const comm::Group& group);

}  // namespace colossal::parallel
