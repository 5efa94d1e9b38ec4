#include <ATen/TensorOperators.h>
#include <ATen/ops/sqrt.h>

#include <cmath>

#include "colossal/optim/elements.h"
#include "colossal/optim/settings.h"

namespace colossal::optim {
namespace {

// X. Xie et al. 2022, "Adan: Adaptive Nesterov Momentum Algorithm", algorithm 1. betas are the
// decay rates of the averages, as for Adam: 1 minus those of the paper.
class Adan : public Optimizer {
 public:
  explicit Adan(const Settings& settings)
      : beta1_(settings.betas[0]),
        beta2_(settings.betas[1]),
        beta3_(settings.betas[2]),
        eps_(settings.eps) {}

  std::vector<std::string> state_names() const override {
    return {"exp_avg", "exp_avg_diff", "exp_avg_sq", "previous_gradient"};
  }

  void update(const Piece& piece, const UpdateScalars& scalars) const override {
    const double step = scalars.learning_rate / bias_correction(beta1_, scalars);
    const double step_of_difference =
        scalars.learning_rate * beta2_ / bias_correction(beta2_, scalars);
    const double root = std::sqrt(bias_correction(beta3_, scalars));
    update_elements(piece, scalars, [&](const Elements& block) {
      const at::Tensor& gradient = block.gradient;
      const at::Tensor& previous = block.state[3];
      if (scalars.update == 1) previous.copy_(gradient);  // the first difference is 0
      const at::Tensor difference = gradient - previous;
      move_average(block.state[0], gradient, beta1_);
      move_average(block.state[1], difference, beta2_);
      const at::Tensor sum = difference.mul_(beta2_).add_(gradient);
      move_average(block.state[2], sum * sum, beta3_);
      const at::Tensor root_mean_square = block.state[2].sqrt().div_(root).add_(eps_);
      block.weight.addcdiv_(block.state[0], root_mean_square, -step);
      block.weight.addcdiv_(block.state[1], root_mean_square, -step_of_difference);
      block.weight.div_(1 + scalars.learning_rate * scalars.weight_decay);
      previous.copy_(gradient);
    });
  }

 private:
  double beta1_;
  double beta2_;
  double beta3_;
  double eps_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adan(const Settings& settings) {
  return std::make_unique<Adan>(settings);
}

}  // namespace colossal::optim
