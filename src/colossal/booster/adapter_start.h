// Initial values of LoRA adapters that are derived from the model's weights: PiSSA (F. Meng et al.
// 2024, "PiSSA: Principal Singular Values and Singular Vectors Adaptation of Large Language
// Models").
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "colossal/checkpoint/weights.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/families.h"

namespace colossal {

// Holds the initial A [r, in] and B [out, r] of each adapted module of a model's files; r: the
// adapter's rank. They are made of the largest singular values of the module's weight W, and their
// singular vectors: scale * B A is the best approximation of W among matrices of the adapter's
// rank. The frozen weight becomes W - scale * B A.
class AdapterStart {
 public:
  // Computes A and B, of dtype `type`, from the weights in the model's folder. Collective: each
  // rank decomposes some of the modules and broadcasts the results. Throws ConfigError if an
  // adapter's rank exceeds the number of singular values. `specification` must outlive this.
  static AdapterStart of_weights(const models::ModelSpecification& specification,
                                 at::ScalarType type, const ParallelContext& context);
  // Reads the initial A and B from a checkpoint of the run. The checkpoint stores the trained A and
  // the initial A in one tensor of twice the rank, and likewise the trained B and minus the initial
  // B. Throws ConfigError if a tensor is missing or has another shape.
  static AdapterStart of_checkpoint(const models::ModelSpecification& specification,
                                    const std::filesystem::path& checkpoint);

  // Returns a change for checkpoint::read_weights(): it replaces each adapted weight W by
  // W - scale * B A. This object must outlive the result.
  checkpoint::ChangedWeights weight_residual() const;
  // Stores the initial A and B in the adapters' parameters, and in the parameters that only keep
  // them for checkpoints.
  void load(memory::ChunkEngine& chunks) const;

 private:
  explicit AdapterStart(const models::ModelSpecification& specification)
      : specification_(&specification) {}
  struct Pair {
    at::Tensor down, up;  // A, B
  };
  // Returns the adapted product whose weight this is; null if there is none.
  const adapters::Product* product_of(const nn::Parameter& weight) const;
  // Returns the rows of `up` that belong to `product`. A module of the files may hold the weights
  // of several products below each other.
  at::Tensor rows_of(const adapters::Product& product, const at::Tensor& up) const;
  // Returns W - scale * B A on this rank, in fp64. here: this rank's shard of W.
  at::Tensor residual_of(const nn::Parameter& weight, const at::Tensor& here) const;

  const models::ModelSpecification* specification_;
  std::map<std::string, Pair> initial_by_module_;  // by the module's name in the model's files
};

}  // namespace colossal
