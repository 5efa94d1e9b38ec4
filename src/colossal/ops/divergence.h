// Divergence between two models' next-token distributions, for distillation.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/ops/linear_cross_entropy.h"

namespace colossal::ops {

// Returns the generalized Jensen-Shannon divergence of each token, [tokens] in fp32 (fp64 for fp64)
// (Agarwal et al. 2024, "On-Policy Distillation of Language Models", eq. 1). p and q are the
// softmaxes of student and teacher. beta = 0: KL(q || p); beta = 1: KL(p || q); else
//   beta KL(q || m) + (1 - beta) KL(p || m),  m = beta q + (1 - beta) p.
//   student, teacher  logits [tokens, vocabulary rows on this rank], of one type
//   shard             how the vocabulary is sharded; null: it is not. Each rank returns the
//                     divergences over the whole vocabulary. Law, in the forward pass only: for
//                     each token an all-reduce of 2 numbers (the largest logits), of 4 and of 2.
// Differentiable in the student's logits, row by row. The backward pass keeps both logits and four
// numbers per token.
at::Tensor divergence(const at::Tensor& student, const at::Tensor& teacher, double beta,
                      const VocabularyShard* shard = nullptr);

}  // namespace colossal::ops
