// Divergence between the next-token distributions of a student and a teacher, for distillation.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/ops/linear_cross_entropy.h"

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
// Communication with a shard: the forward pass calls shard->combine() once, with statistics [3, 2 *
// tokens]: first those of the student's tokens, then those of the teacher's. Row 2 is 0, since
// there are no labels. With parallel::vocabulary_shard(), this is an all-reduce of 2 numbers per
// token (row 0 of both models), then of 4 (rows 1 and 2). Then the forward pass calls shard->sum()
// once, with two KL divergences per token. The backward pass sends nothing. Differentiable in the
// student's logits. Saves the logits of both models and four numbers per token (two normalizers and
// the two KL divergences) for the backward pass. Throws InternalError if student and teacher differ
// in sizes or type.
at::Tensor divergence(const at::Tensor& student, const at::Tensor& teacher, double beta,
                      const VocabularyShard* shard = nullptr);

}  // namespace colossal::ops
