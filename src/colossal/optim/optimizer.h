// Interface of the optimizers, and make_optimizer(), which creates one by name. An optimizer has no
// state of its own: memory::ChunkEngine stores the state tensors, and passes them to update() with
// the weights and gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace colossal::optim {

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
};

// Numbers that one call of update() applies to all elements of a piece.
struct UpdateScalars {
  double learning_rate = 0;
  double weight_decay = 0;  // update() subtracts learning_rate * weight_decay * the weight
  // Factor of the gradient. It turns the sum over tokens into the mean, and clips the gradient.
  double gradient_scale = 1;
  // Number of this update of the elements, counted from 1. AdamW's bias corrections use it.
  int64_t update = 1;
  bool operator==(const UpdateScalars&) const = default;
};

// An update rule, such as AdamW. Objects are immutable, so threads may share an object.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual const char* name() const = 0;  // as in OptimizerConfig
  // Returns the names of the state tensors, such as "exp_avg". Checkpoints use these names. Each
  // state tensor has one number per element of the piece.
  virtual std::vector<std::string> state_names() const = 0;
  // Makes one update: overwrites piece.master, piece.working and piece.state.
  virtual void update(const Piece& piece, const UpdateScalars& scalars) const = 0;
};

// The "optimizer" table of a job's configuration.
struct OptimizerConfig {
  std::string name = "adamw";            // the only optimizer
  double learning_rate = 3e-4;           // peak of the schedule (schedule.h)
  double weight_decay = 0.1;             // applied to parameters with two or more dims
  std::vector<double> betas{0.9, 0.95};  // AdamW's decay rates of the first and second moments
  double eps = 1e-8;                     // added to the root of AdamW's second moment
};

// Creates the optimizer config.name. Throws ConfigError for an unknown name, for a negative
// learning rate, or if config.betas is not two numbers in [0, 1).
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config);

}  // namespace colossal::optim
