// The softmax of a block of logits, and the cross-entropy of its rows. linear_cross_entropy()
// (linear_cross_entropy.h) calls these functions for one block of tokens after the other.
//
//   logits    [tokens, words]: for consecutive words of the vocabulary. Already capped, except for
//             cap_logits(). On the CPU they are contiguous; on a GPU the tokens may be any number
//             of elements apart
//   labels    [tokens] int64, counted from the first of these words
//   soft_cap  the cap that the logits have passed through; 0: none
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Computes logits <- soft_cap * tanh(logits / soft_cap), unless soft_cap is 0.
void cap_logits(const at::Tensor& logits, double soft_cap);

// Returns the sum of the losses of the tokens whose label is not kIgnoredLabel, a scalar in fp64.
// The logits are of the whole vocabulary. With `gradient`, overwrites them by the gradient of the
// loss with respect to the uncapped logits.
at::Tensor cross_entropy_of_rows(const at::Tensor& logits, const at::Tensor& labels,
                                 double soft_cap, bool gradient);

// Returns what VocabularyShard::combine combines over all rows of the vocabulary, [3, tokens] in
// the compute type: each token's largest logit, the sum of the exponentials of its logits minus the
// largest, and the logit of its label, 0 if the label is not among these words.
at::Tensor softmax_statistics(const at::Tensor& logits, const at::Tensor& labels);
// Returns the losses, [tokens]. statistics: over the whole vocabulary.
at::Tensor losses_of(const at::Tensor& statistics);
// Overwrites the logits by the gradient of the losses with respect to the uncapped logits, and by 0
// for tokens whose `ignored`, [tokens] bool, is true. statistics: over the whole vocabulary.
void cross_entropy_gradient(const at::Tensor& logits, const at::Tensor& labels,
                            const at::Tensor& ignored, const at::Tensor& statistics,
                            double soft_cap);

}  // namespace colossal::ops
