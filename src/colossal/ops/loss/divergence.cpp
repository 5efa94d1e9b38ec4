#include "colossal/ops/loss/divergence.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "colossal/base/error.h"
#include "colossal/base/range.h"
#include "colossal/ops/flat_tensor.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Calls visit() for one block of tokens after the other, so that tensors of a block's logits in the
// compute type are small.
void for_tokens(const at::Tensor& logits, const std::function<void(Range tokens)>& visit) {
  if (logits.numel() == 0) return;
  const int64_t rows = linear_cross_entropy_block_tokens(logits.size(0), logits.size(1),
                                                         compute_type(logits.scalar_type()));
  for (int64_t begin = 0; begin < logits.size(0); begin += rows) {
    visit({begin, std::min(begin + rows, logits.size(0))});
  }
}

at::Tensor rows_of_tokens(const at::Tensor& tensor, Range tokens) {
  return tensor.narrow(0, tokens.begin, tokens.size());
}

// Returns the log-probabilities of some tokens. normalizers: [all tokens], the logarithm of the sum
// of exp(logit).
at::Tensor log_probabilities(const at::Tensor& logits, const at::Tensor& normalizers,
                             Range tokens) {
  return rows_of_tokens(logits, tokens).to(normalizers.scalar_type()) -
         rows_of_tokens(normalizers, tokens).unsqueeze(1);
}

// Returns the logarithm of the sum of exp(logit), [tokens], from VocabularyShard::combine()'s
// statistics.
at::Tensor normalizers_of(const at::Tensor& statistics) {
  return statistics[0] + statistics[1].log();
}

// Returns VocabularyShard::combine()'s statistics, [3, 2 * tokens], without labels (row 2 is 0): of
// the student's tokens, then of the teacher's.
at::Tensor statistics_of(const at::Tensor& student, const at::Tensor& teacher) {
  const int64_t tokens = student.size(0);
  const at::Tensor found =
      at::zeros({3, 2 * tokens}, student.options().dtype(compute_type(student.scalar_type())));
  int64_t first = 0;
  for (const at::Tensor& logits : {student, teacher}) {
    for_tokens(logits, [&](Range block) {
      const at::Tensor wide = rows_of_tokens(logits, block).to(found.scalar_type());
      const at::Tensor largest = wide.amax(1);
      found[0].narrow(0, first + block.begin, block.size()).copy_(largest);
      found[1]
          .narrow(0, first + block.begin, block.size())
          .copy_((wide - largest.unsqueeze(1)).exp_().sum(1));
    });
    first += tokens;
  }
  return found;
}

// Returns log m, where m is the mixture of both distributions; for beta = 1 this is the teacher.
// student, teacher: log-probabilities. Requires beta > 0.
at::Tensor log_compared(const at::Tensor& student, const at::Tensor& teacher, double beta) {
  if (beta == 1) return teacher;
  return at::logaddexp(student + std::log1p(-beta), teacher + std::log(beta));
}

struct Divergence : torch::autograd::Function<Divergence> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& student,
                            const at::Tensor& teacher, double beta, const VocabularyShard* shard) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor statistics = statistics_of(student, teacher);
    if (shard) shard->combine(statistics);
    const int64_t tokens = student.size(0);
    const at::Tensor normalizers = normalizers_of(statistics).view({2, tokens});
    // KL(q || m) and KL(p || m), where m is p for beta = 0.
    const at::Tensor terms = at::zeros({2, tokens}, normalizers.options());
    for_tokens(student, [&](Range block) {
      const at::Tensor p = log_probabilities(student, normalizers[0], block);
      const at::Tensor q = log_probabilities(teacher, normalizers[1], block);
      const at::Tensor compared = beta == 0 ? p : log_compared(p, q, beta);
      rows_of_tokens(terms[0], block).copy_((q.exp() * (q - compared)).sum(1));
      rows_of_tokens(terms[1], block).copy_((p.exp() * (p - compared)).sum(1));
    });
    if (shard) shard->sum(terms);
    context->save_for_backward({student, teacher, normalizers, terms});
    context->saved_data["beta"] = beta;
    if (beta == 0 || beta == 1) return terms[beta == 0 ? 0 : 1].clone();
    return beta * terms[0] + (1 - beta) * terms[1];
  }

  // The gradient of the student's logit v is p_v - q_v for beta = 0. Otherwise it is (1 - beta) p_v
  // (log(p_v / m_v) - KL(p || m)); for beta = 1, m is q and the factor is 1 instead of 1 - beta.
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &student = saved[0], &teacher = saved[1], &normalizers = saved[2];
    const double beta = context->saved_data["beta"].toDouble();
    const at::Tensor result = at::empty_like(student);
    for_tokens(student, [&](Range block) {
      const at::Tensor p = log_probabilities(student, normalizers[0], block);
      const at::Tensor q = log_probabilities(teacher, normalizers[1], block);
      at::Tensor slope;
      if (beta == 0) {
        slope = p.exp() - q.exp();
      } else {
        const at::Tensor mean = rows_of_tokens(saved[3][1], block).unsqueeze(1);
        slope = p.exp() * (p - log_compared(p, q, beta) - mean) * (beta == 1 ? 1 : 1 - beta);
      }
      rows_of_tokens(result, block).copy_(slope * rows_of_tokens(gradients[0], block).unsqueeze(1));
    });
    return {result, {}, {}, {}};
  }
};

}  // namespace

at::Tensor divergence(const at::Tensor& student, const at::Tensor& teacher, double beta,
                      const VocabularyShard* shard) {
  COLOSSAL_CHECK(student.dim() == 2 && student.sizes() == teacher.sizes() &&
                     student.scalar_type() == teacher.scalar_type(),
                 "student {}, teacher {}", shape_text(student), shape_text(teacher));
  return Divergence::apply(student, teacher, beta, shard);
}

}  // namespace colossal::ops
