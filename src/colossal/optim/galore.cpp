#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "colossal/optim/elements.h"
#include "colossal/optim/settings.h"

namespace colossal::optim {
namespace {

// J. Zhao et al. 2024, "GaLore: Memory-Efficient LLM Training by Gradient Low-Rank Projection",
// algorithm 2, as the authors' galore_torch computes it: Adam's averages are kept of the gradient's
// projection to the largest singular vectors, which are computed anew every projection_interval
// updates.
class Galore : public MatrixOptimizer {
 public:
  explicit Galore(const Settings& settings)
      : beta1_(settings.betas[0]),
        beta2_(settings.betas[1]),
        eps_(settings.eps),
        rank_(settings.config.rank),
        interval_(settings.config.projection_interval),
        scale_(settings.config.projection_scale) {}

  std::vector<std::string> state_names() const override { return {}; }

  std::vector<WholeState> whole_states(const MatrixShape& shape) const override {
    const auto [less, more] = std::minmax(shape.rows, shape.columns);
    const int64_t rank = std::min(rank_, less);
    return {{"projection", {shape.matrices * rank, less}},
            {"exp_avg", {shape.matrices * rank, more}},
            {"exp_avg_sq", {shape.matrices * rank, more}}};
  }

  void prepare(const Piece& piece, const UpdateScalars& scalars) const override {
    piece.gradient.mul_(scalars.gradient_scale);
  }

  at::Tensor transform(const at::Tensor& matrix, const std::vector<at::Tensor>& whole,
                       const UpdateScalars& scalars) const override {
    const bool wide = matrix.size(0) < matrix.size(1);
    const at::Tensor gradient = wide ? matrix : matrix.t();  // [less, more]
    const at::Tensor& projection = whole[0];
    if ((scalars.update - 1) % interval_ == 0) {
      // An expert without tokens has a gradient of zeros, which says nothing of its directions.
      const at::Tensor fresh = singular_vectors(gradient).narrow(1, 0, projection.size(0)).t();
      const at::Tensor kept = at::where(at::linalg_vector_norm(projection) > 0, projection, fresh);
      projection.copy_(at::where(at::linalg_vector_norm(gradient) > 0, fresh, kept));
    }
    const at::Tensor low = projection.mm(gradient);
    move_average(whole[1], low, beta1_);
    move_average(whole[2], low * low, beta2_);
    const double correction =
        std::sqrt(bias_correction(beta2_, scalars)) / bias_correction(beta1_, scalars);
    const at::Tensor move = whole[1] / (whole[2].sqrt().add_(eps_)) * (scale_ * correction);
    const at::Tensor direction = projection.t().mm(move);
    return wide ? direction : direction.t();
  }

  void update(const Piece& piece, const UpdateScalars& scalars) const override {
    update_elements(piece, scalars, [&](const Elements& block) {
      block.weight.add_(block.gradient, -scalars.learning_rate);
      decay(block.weight, scalars);
    });
  }

 private:
  // Returns the left singular vectors as columns. The result must not depend on rounding. A
  // singular vector may have either sign, on which the averages of earlier gradients depend: the
  // largest element of each is positive here. Directions that the gradient does not have are zeros:
  // there, rounding alone would choose the vectors.
  static at::Tensor singular_vectors(const at::Tensor& gradient) {
    const auto [vectors, values, ignored] = at::linalg_svd(gradient, /*full_matrices=*/false);
    const at::Tensor largest = vectors.abs().argmax(0, /*keepdim=*/true);
    const double rounding =
        100 * (gradient.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                     : std::numeric_limits<float>::epsilon());
    const at::Tensor exists = values > values[0] * rounding;
    return vectors * vectors.gather(0, largest).sign() * exists;
  }

  double beta1_;
  double beta2_;
  double eps_;
  int64_t rank_;
  int64_t interval_;
  double scale_;
};

}  // namespace

std::unique_ptr<Optimizer> make_galore(const Settings& settings) {
  return std::make_unique<Galore>(settings);
}

}  // namespace colossal::optim
