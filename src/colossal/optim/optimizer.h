// Optimizers as functions over flat pieces of parameters. memory/ decides what is in a piece.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace colossal::optim {

// A contiguous run of elements, all of parameters that are updated with the same scalars.
// All tensors are one-dimensional, contiguous and of equal length.
struct Piece {
  at::Tensor master;              // fp32 or fp64; what is updated
  at::Tensor working;             // what the model computes with; undefined where it is the master
  at::Tensor gradient;            // summed over ranks, before scaling
  std::vector<at::Tensor> state;  // as state_names() lists them
};

struct UpdateScalars {
  double learning_rate = 0;
  double weight_decay = 0;
  double gradient_scale = 1;  // factor on the gradient: mean over tokens, clipping
  int64_t update = 1;         // number of this update for the piece, from 1
  bool operator==(const UpdateScalars&) const = default;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual const char* name() const = 0;
  // Tensors of state that each element has, as checkpoints name them.
  virtual std::vector<std::string> state_names() const = 0;
  // True: an element's update needs nothing but that element, so any slice may be updated alone.
  virtual bool elementwise() const = 0;
  virtual void update(const Piece& piece, const UpdateScalars& scalars) const = 0;
};

struct OptimizerConfig {
  std::string name = "adamw";
  double learning_rate = 3e-4;
  double weight_decay = 0.1;  // on parameters of two or more dims
  std::vector<double> betas{0.9, 0.95};
  double eps = 1e-8;
};

// Throws ConfigError for a name it does not know or values out of range.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config);

}  // namespace colossal::optim
