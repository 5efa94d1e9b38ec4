// Divergence between the next-token distributions of a student and a teacher, for distillation.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/ops/loss/linear_cross_entropy.h"

namespace colossal::ops {

// Returns the generalized Jensen-Shannon divergence of each token, [tokens], in fp64 for fp64
// logits, otherwise in fp32 (Agarwal et al. 2024, "On-Policy Distillation of Language Models", eq.
// 1). With p the softmax of the student's logits and q the softmax of the teacher's, this is
//   KL(q || p)                               for beta = 0,
//   KL(p || q)                               for beta = 1,
//   beta KL(q || m) + (1 - beta) KL(p || m)  otherwise, where m = beta q + (1 - beta) p.
// Parameters:
//   student, teacher  logits [tokens, vocabulary on this rank], both of one type
//   beta              in [0, 1]
//   shard             how the vocabulary is sharded over ranks; null: it is not sharded. Each rank
//                     returns the divergences over the whole vocabulary
// Communication with a shard: the forward pass makes two calls, the backward pass none.
//   shard->combine()  with statistics [3, 2 * tokens], first of the student's tokens, then of the
//                     teacher's. Row 0 is the largest logit, row 1 the sum of exp(logit - largest
//                     logit). Row 2, the label's logit, is 0, since there are no labels. The shard
//                     of parallel::vocabulary_shard() all-reduces row 0 (2 numbers per token), then
//                     rows 1 and 2 (4 numbers per token)
//   shard->sum()      with 2 numbers per token, KL(q || m) and KL(p || m). Here m is p for beta = 0
//                     and q for beta = 1, so that one of the two is 0
// Differentiable in the student's logits. Saves the logits of both models and four numbers per
// token (two normalizers and the two KL divergences) for the backward pass. Throws InternalError if
// student and teacher differ in sizes or type.
at::Tensor divergence(const at::Tensor& student, const at::Tensor& teacher, double beta,
                      const VocabularyShard* shard = nullptr);

}  // namespace colossal::ops
