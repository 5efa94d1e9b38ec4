#include <ATen/TensorOperators.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sum.h>

#include "colossal/optim/elements.h"
#include "colossal/optim/factored.h"
#include "colossal/optim/settings.h"

namespace colossal::optim {
namespace {

// Y. Luo et al. 2023, "CAME: Confidence-guided Adaptive Memory Efficient Optimization",
// algorithm 2.
class Came : public TensorOptimizer {
 public:
  explicit Came(const Settings& settings)
      : beta1_(settings.betas[0]),
        beta2_(settings.betas[1]),
        beta3_(settings.betas[2]),
        eps_(settings.eps),
        clip_(settings.config.clip_threshold) {}

 protected:
  at::Tensor squares(const at::Tensor& gradient) const { return gradient.square().add_(eps_); }

  // Returns `direction` clipped to a root mean square of at most clip_threshold over the tensor.
  // squared_norm: of the direction of the whole tensor.
  at::Tensor clipped(const at::Tensor& direction, const at::Tensor& squared_norm,
                     const MatrixShape& shape) const {
    const at::Tensor size = (squared_norm / static_cast<double>(shape.numel())).sqrt();
    return direction / (size / clip_).clamp_min(1);
  }

  static void move(const Piece& piece, const at::Tensor& direction, const UpdateScalars& scalars) {
    decay(piece.master, scalars);
    piece.master.sub_(direction, scalars.learning_rate);
    write_working(piece);
  }

  static constexpr double kLeastResidual = 1e-16;  // epsilon 2 of the paper

  double beta1_;
  double beta2_;
  double beta3_;
  double eps_;
  double clip_;
};

// For tensors of two or more dims.
class FactoredCame : public Came {
 public:
  using Came::Came;

  std::vector<std::string> state_names() const override { return {"exp_avg"}; }
  std::vector<WholeState> whole_states(const MatrixShape& shape) const override {
    std::vector<WholeState> states = factored_states("exp_avg_sq_row", "exp_avg_sq_col", shape);
    for (WholeState& each : factored_states("exp_avg_res_row", "exp_avg_res_col", shape)) {
      states.push_back(std::move(each));
    }
    return states;
  }

  // Passes: averages of squares; norm of the direction; averages of the residual's squares.
  int num_passes() const override { return 3; }
  int64_t num_sums(int pass, const MatrixShape& shape) const override {
    return pass == 1 ? 1 : num_factored_sums(shape);
  }

  void pass(int pass, const Piece& piece, const UpdateScalars& scalars,
            const at::Tensor& sums) const override {
    if (pass == 0) {
      if (sums.defined()) {
        add_factored_sums(piece, squares(scaled_gradient(piece, scalars)), sums);
      }
    } else if (pass == 1) {
      if (sums.defined()) sums[0].add_(direction(piece, scalars).square().sum(at::kDouble));
    } else {
      const TensorState& tensor = *piece.tensor;
      const at::Tensor move = clipped(direction(piece, scalars), tensor.sums[1], tensor.shape);
      move_average(piece.state[0], move, beta1_);
      if (!sums.defined()) return;
      add_factored_sums(piece, (move - piece.state[0]).square_().add_(kLeastResidual), sums);
    }
  }

  void end_pass(int pass, TensorState& tensor, const UpdateScalars&) const override {
    if (pass == 1) return;
    const size_t first = pass == 0 ? 0 : 2;
    tensor.sums.back() =
        move_factored(tensor.whole[first], tensor.whole[first + 1], tensor.sums.back(),
                      tensor.shape, pass == 0 ? beta2_ : beta3_);
  }

  void update(const Piece& piece, const UpdateScalars& scalars) const override {
    move(piece, inverse_roots(piece, piece.tensor->sums[2]).mul_(piece.state[0]), scalars);
  }

 private:
  static at::Tensor direction(const Piece& piece, const UpdateScalars& scalars) {
    return inverse_roots(piece, piece.tensor->sums[0]).mul_(scaled_gradient(piece, scalars));
  }
};

// For tensors with fewer dims: an average for each element, and no confidence.
class ElementCame : public Came {
 public:
  using Came::Came;

  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }

  int num_passes() const override { return 1; }
  int64_t num_sums(int, const MatrixShape&) const override { return 1; }

  void pass(int, const Piece& piece, const UpdateScalars& scalars,
            const at::Tensor& sums) const override {
    move_average(piece.state[1], squares(scaled_gradient(piece, scalars)), beta2_);
    if (sums.defined()) sums[0].add_(direction(piece, scalars).square().sum(at::kDouble));
  }

  void update(const Piece& piece, const UpdateScalars& scalars) const override {
    const TensorState& tensor = *piece.tensor;
    const at::Tensor clip = clipped(direction(piece, scalars), tensor.sums[0], tensor.shape);
    move_average(piece.state[0], clip, beta1_);
    move(piece, piece.state[0], scalars);
  }

 private:
  static at::Tensor direction(const Piece& piece, const UpdateScalars& scalars) {
    return piece.state[1].rsqrt().mul_(scaled_gradient(piece, scalars));
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_came(const Settings& settings, bool matrix) {
  if (matrix) return std::make_unique<FactoredCame>(settings);
  return std::make_unique<ElementCame>(settings);
}

}  // namespace colossal::optim
