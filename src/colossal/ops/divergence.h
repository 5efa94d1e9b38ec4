// Divergence between two models' next-token distributions, for distillation.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/ops/linear_cross_entropy.h"

namespace colossal::ops {

// Returns the generalized Jensen-Shannon divergence of each token, [tokens] in fp32 (fp64 for fp64)
// (Agarwal et al. 2024, "On-Policy Distillation of Language Models", eq. 1). p is the softmax of
// the student's logits, q that of the teacher's. beta is in [0, 1]. For beta = 0: KL(q || p); for
// beta = 1: KL(p || q); otherwise
//   beta KL(q || m) + (1 - beta) KL(p || m),  m = beta q + (1 - beta) p.
//   student, teacher  logits [tokens, part of the vocabulary on this rank], of one type
//   shard             how the vocabulary is sharded; null: it is not. Each rank returns the
//                     divergences over the whole vocabulary. Law: the forward pass all-reduces 2
//                     numbers per token (the largest logits), then 4, then 2; the backward pass
//                     sends nothing.
// Differentiable in the student's logits. Saves both logits and four numbers per token for
// backward. Throws InternalError if student and teacher differ in sizes or type.
at::Tensor divergence(const at::Tensor& student, const at::Tensor& teacher, double beta,
                      const VocabularyShard* shard = nullptr);

}  // namespace colossal::ops
