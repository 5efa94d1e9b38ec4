// Optimizers update flat pieces of parameters. The code in memory/ decides which elements form a
// piece, and holds the optimizer's state.
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
  at::Tensor working;             // set to the new master; undefined: the model uses the master
  at::Tensor gradient;            // summed over ranks, not yet scaled
  std::vector<at::Tensor> state;  // in the order of state_names(); updated
};

struct UpdateScalars {
  double learning_rate = 0;
  double weight_decay = 0;
  double gradient_scale = 1;  // the gradient is multiplied by it (mean over tokens, clipping)
  int64_t update = 1;         // 1 for the first update of these elements, then 2, ...
  bool operator==(const UpdateScalars&) const = default;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual const char* name() const = 0;
  // Returns the names of the optimizer's state tensors, which checkpoints use, too. Each tensor has
  // one number per element of the piece.
  virtual std::vector<std::string> state_names() const = 0;
  // Returns whether the update of an element depends only on that element's numbers, so that any
  // slice of a parameter may be updated separately.
  virtual bool elementwise() const = 0;
  // Updates master, working and state in place.
  virtual void update(const Piece& piece, const UpdateScalars& scalars) const = 0;
};

struct OptimizerConfig {
  std::string name = "adamw";
  double learning_rate = 3e-4;
  double weight_decay = 0.1;  // applied to parameters with two or more dims
  std::vector<double> betas{0.9, 0.95};
  double eps = 1e-8;
};

// Throws ConfigError for an unknown name, for a negative learning rate, or if `betas` is not two
// numbers in [0, 1).
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config);

}  // namespace colossal::optim
