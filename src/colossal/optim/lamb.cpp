#include <ATen/TensorOperators.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "colossal/optim/elements.h"
#include "colossal/optim/settings.h"

namespace colossal::optim {
namespace {

// Y. You et al. 2020, "Large Batch Optimization for Deep Learning: Training BERT in 76 Minutes",
// algorithm 2, with phi(x) = x: Adam's direction of each tensor gets the norm of the weights.
class Lamb : public TensorOptimizer {
 public:
  explicit Lamb(const Settings& settings)
      : beta1_(settings.betas[0]), beta2_(settings.betas[1]), eps_(settings.eps) {}

  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }

  int num_passes() const override { return 1; }
  int64_t num_sums(int, const MatrixShape&) const override { return 2; }

  // sums: squared norms of the weights and of the direction
  void pass(int, const Piece& piece, const UpdateScalars& scalars,
            const at::Tensor& sums) const override {
    const at::Tensor gradient = scaled_gradient(piece, scalars);
    move_average(piece.state[0], gradient, beta1_);
    move_average(piece.state[1], gradient * gradient, beta2_);
    if (!sums.defined()) return;
    const at::Tensor move = direction(piece.master, piece.state, scalars);
    sums[0].add_((piece.master * piece.master).sum(at::kDouble));
    sums[1].add_((move * move).sum(at::kDouble));
  }

  void update(const Piece& piece, const UpdateScalars& scalars) const override {
    const at::Tensor norms = piece.tensor->sums[0].sqrt();
    const at::Tensor ratio = at::where(norms[0] * norms[1] > 0, norms[0] / norms[1], 1.0);
    update_elements(piece, scalars, [&](const Elements& block) {
      const at::Tensor move = direction(block.weight, block.state, scalars);
      block.weight.sub_(move.mul_(ratio * scalars.learning_rate));
    });
  }

 private:
  at::Tensor direction(const at::Tensor& weight, const std::vector<at::Tensor>& state,
                       const UpdateScalars& scalars) const {
    const double root = std::sqrt(bias_correction(beta2_, scalars));
    return (state[0] / bias_correction(beta1_, scalars))
        .div_(state[1].sqrt().div_(root).add_(eps_))
        .add_(weight, scalars.weight_decay);
  }

  double beta1_;
  double beta2_;
  double eps_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lamb(const Settings& settings) {
  return std::make_unique<Lamb>(settings);
}

}  // namespace colossal::optim
