#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cmath>

#include "colossal/optim/elements.h"
#include "colossal/optim/settings.h"

namespace colossal::optim {
namespace {

// Returns about the orthogonal matrix nearest to `matrix`, U V^T of its singular value
// decomposition U S V^T, by Newton-Schulz iterations of fifth order. The singular values of the
// result are between about 0.7 and 1.2 (K. Jordan et al. 2024, "Muon").
at::Tensor orthogonalized(const at::Tensor& matrix, int steps) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  const bool wide = matrix.size(0) <= matrix.size(1);
  at::Tensor x = wide ? matrix : matrix.t();
  x = x / at::linalg_vector_norm(x).clamp_min(1e-7);
  for (int step = 0; step < steps; ++step) {
    const at::Tensor gram = x.mm(x.t());
    const at::Tensor polynomial = (gram * kB).add_(gram.mm(gram), kC);
    x = (x * kA).add_(polynomial.mm(x));
  }
  return wide ? x : x.t();
}

// K. Jordan et al. 2024, with Nesterov momentum and decoupled weight decay, as torch.optim.Muon
// computes it, but in the type of the masters instead of bf16. The scale "match_rms_adamw" is that
// of J. Liu et al. 2025, "Muon is Scalable for LLM Training", equation 4: a learning rate for AdamW
// suits Muon, too.
class Muon : public MatrixOptimizer {
 public:
  explicit Muon(const Settings& settings)
      : momentum_(settings.momentum),
        steps_(settings.config.newton_schulz_steps),
        matches_adamw_(settings.config.muon_scale == "match_rms_adamw") {}

  std::vector<std::string> state_names() const override { return {"momentum_buffer"}; }

  void prepare(const Piece& piece, const UpdateScalars& scalars) const override {
    const at::Tensor gradient = scaled_gradient(piece, scalars);
    move_average(piece.state[0], gradient, momentum_);
    piece.gradient.copy_(gradient.mul_(1 - momentum_).add_(piece.state[0], momentum_));
  }

  at::Tensor transform(const at::Tensor& matrix, const std::vector<at::Tensor>&,
                       const UpdateScalars&) const override {
    const auto outputs = static_cast<double>(matrix.size(0));
    const auto inputs = static_cast<double>(matrix.size(1));
    const double scale = matches_adamw_ ? 0.2 * std::sqrt(std::max(outputs, inputs))
                                        : std::sqrt(std::max(1.0, outputs / inputs));
    return orthogonalized(matrix, steps_) * scale;
  }

  void update(const Piece& piece, const UpdateScalars& scalars) const override {
    update_elements(piece, scalars, [&](const Elements& block) {
      decay(block.weight, scalars);
      block.weight.add_(block.gradient, -scalars.learning_rate);
    });
  }

 private:
  double momentum_;
  int steps_;
  bool matches_adamw_;
};

}  // namespace

std::unique_ptr<Optimizer> make_muon(const Settings& settings) {
  return std::make_unique<Muon>(settings);
}

}  // namespace colossal::optim
