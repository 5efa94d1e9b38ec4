#include "colossal/base/error.h"
#include "colossal/ops/optimizer_kernels.h"
#include "colossal/optim/optimizer.h"

namespace colossal::optim {
namespace {

// Decoupled weight decay: Loshchilov & Hutter 2019, algorithm 2, as torch.optim.AdamW computes it.
class AdamW : public Optimizer {
 public:
  explicit AdamW(const OptimizerConfig& config)
      : beta1_(config.betas[0]), beta2_(config.betas[1]), eps_(config.eps) {}

  const char* name() const override { return "adamw"; }
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

void validate(const OptimizerConfig& config) {
  if (config.betas.size() != 2 || !(config.betas[0] >= 0 && config.betas[0] < 1) ||
      !(config.betas[1] >= 0 && config.betas[1] < 1)) {
    throw ConfigError(fmt::format(
        "optimizer.betas = [{}]: two numbers from 0 to below 1, for example [0.9, 0.95]",
        fmt::join(config.betas, ", ")));
  }
  if (!(config.learning_rate >= 0)) {
    throw ConfigError(
        fmt::format("optimizer.learning_rate = {}: must not be negative", config.learning_rate));
  }
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config) {
  validate(config);
  if (config.name == "adamw") return std::make_unique<AdamW>(config);
  throw ConfigError(fmt::format("optimizer.name = \"{}\": unknown; use \"adamw\"", config.name));
}

}  // namespace colossal::optim
