// What adapters begin with where that is a part of the weights themselves: PiSSA (F. Meng et al.
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

// For each adapted module of a model's files, A and B of its largest singular values: scale * B A
// is the nearest matrix of that rank to its weight W. The weight then is W - scale * B A.
class AdapterStart {
 public:
  // From the weights in the model's folder; in `type`, in which the run keeps them. Collective:
  // each rank decomposes its share of the modules, and sends the others what it found. Throws
  // ConfigError for a rank above the number of singular values. `specification` must outlive this.
  static AdapterStart of_weights(const models::ModelSpecification& specification,
                                 at::ScalarType type, const ParallelContext& context);
  // As a checkpoint has them behind what was learned.
  static AdapterStart of_checkpoint(const models::ModelSpecification& specification,
                                    const std::filesystem::path& checkpoint);

  // Makes of weights what is left of them. It refers to this.
  checkpoint::ChangedWeights rest() const;
  // Stores A and B as the adapters' own, and as the start that is kept.
  void load(memory::ChunkEngine& chunks) const;

 private:
  explicit AdapterStart(const models::ModelSpecification& specification)
      : specification_(&specification) {}
  struct Pair {
    at::Tensor down, up;  // A [rank, in], B [out, rank]
  };
  const adapters::Product* product_of(const nn::Parameter& weight) const;
  // Of a module's outputs those of one of its products.
  at::Tensor rows_of(const adapters::Product& product, const at::Tensor& up) const;
  at::Tensor rest_of(const nn::Parameter& weight, const at::Tensor& here) const;

  const models::ModelSpecification* specification_;
  std::map<std::string, Pair> of_modules_;
};

}  // namespace colossal
