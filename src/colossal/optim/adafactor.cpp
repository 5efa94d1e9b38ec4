#include <ATen/TensorOperators.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sum.h>

#include <cmath>

#include "colossal/optim/elements.h"
#include "colossal/optim/factored.h"
#include "colossal/optim/settings.h"

namespace colossal::optim {
namespace {

// N. Shazeer, M. Stern 2018, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost",
// algorithms 4 and 5, as transformers.Adafactor computes it with relative_step=False.
class Adafactor : public TensorOptimizer {
 public:
  explicit Adafactor(const Settings& settings)
      : beta1_(settings.betas[0]),
        eps_(settings.eps),
        clip_(settings.config.clip_threshold),
        scales_(settings.config.scale_by_parameter) {}

  std::vector<std::string> state_names() const override {
    if (beta1_ == 0) return {};
    return {"exp_avg"};
  }

  void update(const Piece& piece, const UpdateScalars& scalars) const override {
    const auto numel = static_cast<double>(piece.tensor->shape.numel());
    const at::Tensor mean_squares = norms(*piece.tensor) / numel;  // of weights and of directions
    at::Tensor rate = (mean_squares[1].sqrt() / clip_).clamp_min(1).reciprocal();
    rate.mul_(scalars.learning_rate);
    at::Tensor decayed = rate.new_full({}, scalars.learning_rate * scalars.weight_decay);
    if (scales_) {
      const at::Tensor size = mean_squares[0].sqrt().clamp_min(kLeastSize);
      rate.mul_(size);
      decayed.mul_(size);
    }
    at::Tensor move = direction(piece, scalars).mul_(rate);
    if (beta1_ != 0) {
      move_average(piece.state[0], move, beta1_);
      move = piece.state[0];
    }
    piece.master.mul_(1 - decayed).sub_(move);
    write_working(piece);
  }

 protected:
  // Returns the squared norms of the weights and of direction(), [2].
  virtual at::Tensor norms(const TensorState& tensor) const = 0;
  // Returns the gradient divided by the root of its average square.
  virtual at::Tensor direction(const Piece& piece, const UpdateScalars& scalars) const = 0;

  at::Tensor squares(const at::Tensor& gradient) const { return gradient.square().add_(eps_); }
  static double beta2(const UpdateScalars& scalars) {
    return 1 - std::pow(static_cast<double>(scalars.update), -0.8);
  }
  static constexpr double kLeastSize = 1e-3;  // epsilon 2 of the paper

  double beta1_;
  double eps_;
  double clip_;
  bool scales_;
};

// For tensors of two or more dims.
class FactoredAdafactor : public Adafactor {
 public:
  using Adafactor::Adafactor;

  std::vector<WholeState> whole_states(const MatrixShape& shape) const override {
    return factored_states("exp_avg_sq_row", "exp_avg_sq_col", shape);
  }

  int num_passes() const override { return 2; }
  int64_t num_sums(int pass, const MatrixShape& shape) const override {
    return pass == 0 ? num_factored_sums(shape) : 2;
  }

  void pass(int pass, const Piece& piece, const UpdateScalars& scalars,
            const at::Tensor& sums) const override {
    if (!sums.defined()) return;
    if (pass == 0) {
      return add_factored_sums(piece, squares(scaled_gradient(piece, scalars)), sums);
    }
    sums[0].add_(piece.master.square().sum(at::kDouble));
    sums[1].add_(direction(piece, scalars).square().sum(at::kDouble));
  }

  void end_pass(int pass, TensorState& tensor, const UpdateScalars& scalars) const override {
    if (pass != 0) return;
    tensor.sums[0] = move_factored(tensor.whole[0], tensor.whole[1], tensor.sums[0], tensor.shape,
                                   beta2(scalars));
  }

 protected:
  at::Tensor norms(const TensorState& tensor) const override { return tensor.sums[1]; }
  at::Tensor direction(const Piece& piece, const UpdateScalars& scalars) const override {
    return inverse_roots(piece, piece.tensor->sums[0]).mul_(scaled_gradient(piece, scalars));
  }
};

// For tensors with fewer dims: an average for each element.
class ElementAdafactor : public Adafactor {
 public:
  using Adafactor::Adafactor;

  std::vector<std::string> state_names() const override {
    std::vector<std::string> names = Adafactor::state_names();
    names.emplace_back("exp_avg_sq");
    return names;
  }

  int num_passes() const override { return 1; }
  int64_t num_sums(int, const MatrixShape&) const override { return 2; }

  void pass(int, const Piece& piece, const UpdateScalars& scalars,
            const at::Tensor& sums) const override {
    move_average(piece.state.back(), squares(scaled_gradient(piece, scalars)), beta2(scalars));
    if (!sums.defined()) return;
    sums[0].add_(piece.master.square().sum(at::kDouble));
    sums[1].add_(direction(piece, scalars).square().sum(at::kDouble));
  }

 protected:
  at::Tensor norms(const TensorState& tensor) const override { return tensor.sums[0]; }
  at::Tensor direction(const Piece& piece, const UpdateScalars& scalars) const override {
    return piece.state.back().rsqrt().mul_(scaled_gradient(piece, scalars));
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_adafactor(const Settings& settings, bool matrix) {
  if (matrix) return std::make_unique<FactoredAdafactor>(settings);
  return std::make_unique<ElementAdafactor>(settings);
}

}  // namespace colossal::optim
