#include <ATen/TensorOperators.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>

#include "colossal/optim/elements.h"
#include "colossal/optim/settings.h"

namespace colossal::optim {
namespace {

// Y. You et al. 2017, "Large Batch Training of Convolutional Networks": stochastic gradient descent
// with a rate for each tensor, in proportion to the norm of its weights over that of its gradient.
class Lars : public TensorOptimizer {
 public:
  explicit Lars(const Settings& settings)
      : momentum_(settings.momentum),
        eps_(settings.eps),
        trust_(settings.config.trust_coefficient),
        nesterov_(settings.config.nesterov) {}

  std::vector<std::string> state_names() const override { return {"momentum_buffer"}; }

  int num_passes() const override { return 1; }
  int64_t num_sums(int, const MatrixShape&) const override { return 2; }

  // sums: squared norms of the weights and of the gradient
  void pass(int, const Piece& piece, const UpdateScalars& scalars,
            const at::Tensor& sums) const override {
    if (!sums.defined()) return;
    const at::Tensor gradient = scaled_gradient(piece, scalars);
    sums[0].add_((piece.master * piece.master).sum(at::kDouble));
    sums[1].add_((gradient * gradient).sum(at::kDouble));
  }

  void update(const Piece& piece, const UpdateScalars& scalars) const override {
    const at::Tensor norms = piece.tensor->sums[0].sqrt();
    const at::Tensor ratio =
        at::where(norms[0] * norms[1] > 0,
                  norms[0] * trust_ / (norms[1] + norms[0] * scalars.weight_decay + eps_), 1.0);
    update_elements(piece, scalars, [&](const Elements& block) {
      const at::Tensor scaled = block.gradient.add_(block.weight, scalars.weight_decay).mul_(ratio);
      const at::Tensor move = with_momentum(block.state[0], scaled, momentum_, nesterov_);
      block.weight.add_(move, -scalars.learning_rate);
    });
  }

 private:
  double momentum_;
  double eps_;
  double trust_;
  bool nesterov_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lars(const Settings& settings) {
  return std::make_unique<Lars>(settings);
}

}  // namespace colossal::optim
