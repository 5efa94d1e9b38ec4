#include "colossal/ops/optimizer_kernels.h"
#include "colossal/optim/settings.h"

namespace colossal::optim {
namespace {

// Decoupled weight decay: Loshchilov & Hutter 2019, algorithm 2, as torch.optim.AdamW computes it.
class AdamW : public Optimizer {
 public:
  explicit AdamW(const Settings& settings)
      : beta1_(settings.betas[0]), beta2_(settings.betas[1]), eps_(settings.eps) {}

  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }

  void update(const Piece& piece, const UpdateScalars& scalars) const override {
    ops::adamw(piece.master, piece.working, piece.state[0], piece.state[1], piece.gradient,
               {.learning_rate = scalars.learning_rate,
                .beta1 = beta1_,
                .beta2 = beta2_,
                .epsilon = eps_,
                .weight_decay = scalars.weight_decay,
                .gradient_scale = scalars.gradient_scale,
                .update = scalars.update});
  }

 private:
  double beta1_;
  double beta2_;
  double eps_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const Settings& settings) {
  return std::make_unique<AdamW>(settings);
}

}  // namespace colossal::optim
