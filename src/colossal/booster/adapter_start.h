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

// Holds, for each adapted module of a model's files, A and B made of the largest singular values of
// its weight W: scale * B A is the best approximation of W of that rank. The frozen weight becomes
// W - scale * B A.
class AdapterStart {
 public:
  // Computes A and B, of dtype `type`, from the weights in the model's folder. Collective: each
  // rank decomposes some of the modules and broadcasts the results. Throws ConfigError if an
  // adapter's rank exceeds the number of singular values. `specification` must outlive this.
  static AdapterStart of_weights(const models::ModelSpecification& specification,
                                 at::ScalarType type, const ParallelContext& context);
  // Reads the initial A and B from a checkpoint of the run. The checkpoint stores them behind the
  // trained A and B, in one tensor of twice the rank.
  static AdapterStart of_checkpoint(const models::ModelSpecification& specification,
                                    const std::filesystem::path& checkpoint);

  // Returns the change that replaces a weight W by W - scale * B A while weights are read. The
  // result refers to this.
  checkpoint::ChangedWeights rest() const;
  // Stores A and B in the adapters' parameters, and in the parameters that keep the initial values.
  void load(memory::ChunkEngine& chunks) const;

 private:
  explicit AdapterStart(const models::ModelSpecification& specification)
      : specification_(&specification) {}
  struct Pair {
    at::Tensor down, up;  // A [rank, in], B [out, rank]
  };
  const adapters::Product* product_of(const nn::Parameter& weight) const;
  // Returns the rows of `up` that belong to one product of a module whose weight packs several
  // products.
  at::Tensor rows_of(const adapters::Product& product, const at::Tensor& up) const;
  at::Tensor rest_of(const nn::Parameter& weight, const at::Tensor& here) const;

  const models::ModelSpecification* specification_;
  std::map<std::string, Pair> of_modules_;
};

}  // namespace colossal
