#include <ATen/TensorOperators.h>
#include <ATen/ops/sqrt.h>

#include <cmath>

#include "colossal/optim/elements.h"
#include "colossal/optim/settings.h"

namespace colossal::optim {
namespace {

// D. Kingma, J. Ba 2015, algorithm 1, as torch.optim.Adam computes it: weight decay is added to the
// gradient.
class Adam : public Optimizer {
 public:
  explicit Adam(const Settings& settings)
      : beta1_(settings.betas[0]), beta2_(settings.betas[1]), eps_(settings.eps) {}

  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }

  void update(const Piece& piece, const UpdateScalars& scalars) const override {
    const double step = scalars.learning_rate / bias_correction(beta1_, scalars);
    const double root = std::sqrt(bias_correction(beta2_, scalars));
    update_elements(piece, scalars, [&](const Elements& block) {
      const at::Tensor& gradient = block.gradient;
      if (scalars.weight_decay != 0) gradient.add_(block.weight, scalars.weight_decay);
      move_average(block.state[0], gradient, beta1_);
      move_average(block.state[1], gradient * gradient, beta2_);
      block.weight.addcdiv_(block.state[0], block.state[1].sqrt().div_(root).add_(eps_), -step);
    });
  }

 private:
  double beta1_;
  double beta2_;
  double eps_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const Settings& settings) {
  return std::make_unique<Adam>(settings);
}

}  // namespace colossal::optim
