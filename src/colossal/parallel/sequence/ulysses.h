// Sequence parallelism by all-to-all (S. A. Jacobs et al., "DeepSpeed Ulysses", 2023): between
// attentions a rank has its share of the positions of every sequence, within one all positions for
// its share of the heads.
#pragma once

#include "colossal/comm/group.h"
#include "colossal/nn/dense_builder.h"

namespace colossal::parallel {

// Attention over a sequence shared by the ranks of `group`, which must outlive it: rank r has the
// positions of part r of a Partition. Queries, keys and values go to the ranks of their heads,
// results back: each token's heads of other ranks travel once each way.
nn::MakeAttention make_ulysses_attention(const comm::Group& group);

}  // namespace colossal::parallel
