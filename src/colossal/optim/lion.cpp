#include <ATen/TensorOperators.h>

#include "colossal/optim/elements.h"
#include "colossal/optim/settings.h"

namespace colossal::optim {
namespace {

// X. Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", program 1: each element
// moves by the learning rate, in the direction of a sign.
class Lion : public Optimizer {
 public:
  explicit Lion(const Settings& settings) : beta1_(settings.betas[0]), beta2_(settings.betas[1]) {}

  std::vector<std::string> state_names() const override { return {"exp_avg"}; }

  void update(const Piece& piece, const UpdateScalars& scalars) const override {
    update_elements(piece, scalars, [&](const Elements& block) {
      decay(block.weight, scalars);
      const at::Tensor direction = (block.state[0] * beta1_).add_(block.gradient, 1 - beta1_);
      block.weight.add_(direction.sign_(), -scalars.learning_rate);
      move_average(block.state[0], block.gradient, beta2_);
    });
  }

 private:
  double beta1_;
  double beta2_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lion(const Settings& settings) {
  return std::make_unique<Lion>(settings);
}

}  // namespace colossal::optim
