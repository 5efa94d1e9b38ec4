// Optimizers as functions over flat pieces of parameters. memory/ decides which elements form a
// piece.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace colossal::optim {

// A contiguous run of elements of parameters that share the same UpdateScalars. All tensors are
// one-dimensional, contiguous and of equal length.
struct Piece {
  at::Tensor master;              // fp32 or fp64; updated
  at::Tensor working;             // weights that the model computes with; undefined: the master
  at::Tensor gradient;            // summed over ranks, not yet scaled
  std::vector<at::Tensor> state;  // in the order of state_names()
};

struct UpdateScalars {
  double learning_rate = 0;
  double weight_decay = 0;
  double gradient_scale = 1;  // factor on the gradient (mean over tokens, clipping)
  int64_t update = 1;         // number of this update of the piece, counted from 1
  bool operator==(const UpdateScalars&) const = default;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual const char* name() const = 0;
  // Names of the optimizer's state tensors, as checkpoints use them. Each has one number per
  // element.
  virtual std::vector<std::string> state_names() const = 0;
  // Returns true if the update of an element depends on that element only, so that any slice may be
  // updated alone.
  virtual bool elementwise() const = 0;
  virtual void update(const Piece& piece, const UpdateScalars& scalars) const = 0;
};

struct OptimizerConfig {
  std::string name = "adamw";
  double learning_rate = 3e-4;
  double weight_decay = 0.1;  // applied to parameters with two or more dims
  std::vector<double> betas{0.9, 0.95};
  double eps = 1e-8;
};

// Throws ConfigError for an unknown name or a value out of range.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config);

}  // namespace colossal::optim
