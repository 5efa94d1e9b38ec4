// Interface of the optimizers, and make_optimizer(), which creates one by name. An optimizer has no
// state of its own: memory::ChunkEngine stores the state tensors, and passes them to update() with
// the weights and gradients.
//
// An optimizer derives from one of these classes, by what the update of an element depends on:
//   Optimizer         on that element alone (AdamW, SGD, Lion, ...)
//   TensorOptimizer   also on sums over the element's tensor: norms, sums of rows and of columns
//                     (LAMB, LARS, Adafactor, CAME)
//   MatrixOptimizer   on the whole matrix (Muon, GaLore)
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "colossal/optim/optimizer_config.h"

namespace colossal::optim {

// A tensor of any number of dims as a stack of matrices, whose rows and columns are the last two
// dims. A tensor with one dim, or none, is one row.
struct MatrixShape {
  int64_t matrices = 1;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t numel() const { return matrices * rows * columns; }
};
MatrixShape matrix_shape(at::IntArrayRef shape);

// The state of a whole tensor that a TensorOptimizer uses.
struct TensorState {
  MatrixShape shape;
  // The tensors of Optimizer::whole_states(), on the ranks that store them; else empty. In the type
  // of the masters, zeros before the first update.
  std::vector<at::Tensor> whole;
  // The results of TensorOptimizer::pass() in this update so far, summed over all elements of the
  // tensor: one tensor [num_sums(pass, shape)] in fp64 for each pass.
  std::vector<at::Tensor> sums;
};

// Consecutive elements of a chunk (a flat buffer of parameters) that are updated with the same
// UpdateScalars. All tensors are one-dimensional, contiguous and of equal length.
struct Piece {
  at::Tensor master;  // the weights in fp32 or fp64; update() overwrites them
  // The weights that the model's products use; update() sets them to the new master weights, in the
  // type of `working`. Undefined: the model uses the master weights.
  at::Tensor working;
  at::Tensor gradient;  // fp64, fp32 or bf16; summed over ranks, not multiplied by gradient_scale
  // One tensor for each of state_names(), all of one type: fp64, fp32 or bf16. Zeros before the
  // first update; update() overwrites them.
  std::vector<at::Tensor> state;

  // The next members are set for a TensorOptimizer only. The piece is then a block of
  // rows.numel() rows and columns.numel() columns of one matrix of
  // one tensor, in row-major order.
  // rows: the index of each row among the rows of all matrices of the tensor (MatrixShape).
  // columns: likewise for columns. Both are int64 tensors on the device of `master`.
  at::Tensor rows, columns;
  const TensorState* tensor = nullptr;
};

// Numbers that one call of update() applies to all elements of a piece.
struct UpdateScalars {
  double learning_rate = 0;
  double weight_decay = 0;
  // Factor of the gradient. It turns the sum over tokens into the mean, and clips the gradient.
  double gradient_scale = 1;
  // Number of this update of the elements, counted from 1. AdamW's bias corrections use it.
  int64_t update = 1;
  bool operator==(const UpdateScalars&) const = default;
};

// A state tensor that is not divided among ranks.
struct WholeState {
  std::string name;
  std::vector<int64_t> shape;
};

class TensorOptimizer;
class MatrixOptimizer;

// An update rule, such as AdamW. Objects are immutable, so threads may share an object.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Returns the names of the state tensors, such as "exp_avg". Checkpoints use these names. Each
  // state tensor has one number per element of the piece.
  virtual std::vector<std::string> state_names() const = 0;
  // Returns the state tensors of a parameter that have other shapes than the parameter, such as
  // Adafactor's averages of rows. The ranks that need them store them whole. The first dim
  // has one entry, or one for each row or column, for each matrix, in order; so the part of one
  // matrix is contiguous.
  virtual std::vector<WholeState> whole_states(const MatrixShape&) const { return {}; }
  // Makes one update: overwrites piece.master, piece.working and piece.state.
  virtual void update(const Piece& piece, const UpdateScalars& scalars) const = 0;
  // Return this object as the named class, or null if it is not one.
  virtual const TensorOptimizer* as_tensor_optimizer() const { return nullptr; }
  virtual const MatrixOptimizer* as_matrix_optimizer() const { return nullptr; }
};

// An optimizer whose update needs sums over a whole tensor. Before update(), each piece of the
// tensor is visited num_passes() times; update() is not counted. After each pass, the sums of all
// ranks' pieces are added up, and every rank with a part of the tensor has the result.
class TensorOptimizer : public Optimizer {
 public:
  virtual int num_passes() const = 0;
  // Returns how many sums the pass makes for a tensor of this shape.
  virtual int64_t num_sums(int pass, const MatrixShape& shape) const = 0;
  // Visits a piece, and may overwrite piece.state, but not piece.master. sums: [num_sums()], fp64,
  // to which the piece's sums are added; undefined if another rank adds those of the same elements.
  virtual void pass(int pass, const Piece& piece, const UpdateScalars& scalars,
                    const at::Tensor& sums) const = 0;
  // Called on every rank with a part of the tensor, when tensor.sums has the result of the pass.
  // Updates tensor.whole, and may replace tensor.sums.back() by what later passes use.
  virtual void end_pass(int /*pass*/, TensorState&, const UpdateScalars&) const {}
  const TensorOptimizer* as_tensor_optimizer() const override { return this; }
};

// An optimizer whose update needs whole matrices. For each piece prepare() is called. Then, for
// each matrix, its owner, one of the ranks, gathers the matrix and calls transform(). Then update()
// is called with the parts of the result as piece.gradient, and with a gradient_scale of 1.
class MatrixOptimizer : public Optimizer {
 public:
  // Updates piece.state, and overwrites piece.gradient with the input of transform().
  virtual void prepare(const Piece& piece, const UpdateScalars& scalars) const = 0;
  // Returns the direction of the update of a matrix, in the shape and type of `matrix`. matrix:
  // [outputs, inputs] of a linear layer, in the type of the masters. whole: the tensors of
  // whole_states(matrix_shape(matrix.sizes())), which are overwritten.
  virtual at::Tensor transform(const at::Tensor& matrix, const std::vector<at::Tensor>& whole,
                               const UpdateScalars& scalars) const = 0;
  const MatrixOptimizer* as_matrix_optimizer() const override { return this; }
};

// Creates the optimizer `name` (OptimizerConfig::name) with the settings of `config`. matrix:
// whether it updates a tensor with at least two dims; Adafactor and CAME keep averages of rows and
// columns for these, and averages of elements for others. Throws ConfigError for an unknown name
// and for settings that the optimizer does not have, or that are out of its range.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const OptimizerConfig& config,
                                          bool matrix = true);

}  // namespace colossal::optim
