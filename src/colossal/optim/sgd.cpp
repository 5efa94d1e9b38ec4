#include <ATen/TensorOperators.h>

#include "colossal/optim/elements.h"
#include "colossal/optim/settings.h"

namespace colossal::optim {
namespace {

// Stochastic gradient descent with momentum (I. Sutskever et al. 2013), as torch.optim.SGD computes
// it: weight decay is added to the gradient, and the momentum buffer does not contain the learning
// rate.
class Sgd : public Optimizer {
 public:
  explicit Sgd(const Settings& settings)
      : momentum_(settings.momentum), nesterov_(settings.config.nesterov) {}

  std::vector<std::string> state_names() const override {
    if (momentum_ == 0) return {};
    return {"momentum_buffer"};
  }

  void update(const Piece& piece, const UpdateScalars& scalars) const override {
    update_elements(piece, scalars, [&](const Elements& block) {
      at::Tensor direction = block.gradient;
      if (scalars.weight_decay != 0) direction.add_(block.weight, scalars.weight_decay);
      if (momentum_ != 0) {
        direction = with_momentum(block.state[0], direction, momentum_, nesterov_);
      }
      block.weight.add_(direction, -scalars.learning_rate);
    });
  }

 private:
  double momentum_;
  bool nesterov_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const Settings& settings) {
  return std::make_unique<Sgd>(settings);
}

}  // namespace colossal::optim
