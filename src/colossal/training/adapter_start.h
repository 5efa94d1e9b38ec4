// Computes the initial values of LoRA adapters from the model's weights by PiSSA (F. Meng et al.
// 2024, "PiSSA: Principal Singular Values and Singular Vectors Adaptation of Large Language
// Models"). Used by runs with adapter.initial = "pissa".
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "colossal/checkpoint/weights.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/families.h"

namespace colossal {

// Holds the initial low-rank matrices A [r, in] and B [out, r] of each adapted linear module. r is
// the adapter's rank, W [out, in] the module's weight, and scale = LoraSettings::scale() the factor
// by which the layer multiplies B A. With the r largest singular values S of W and their singular
// vectors U and V, A = sqrt(S / scale) V^T and B = U sqrt(S / scale). Thus scale * B A is the best
// approximation of W among matrices of rank r. The frozen weight becomes W - scale * B A.
//
// Modules are those of the model's files. One module of a file may be several products in this
// program, such as queries, keys and values; each of them has some of the rows of W and B.
//
// Order of calls: of_weights() in a new run or of_checkpoint() in a resumed run; then
// checkpoint::read_model() with weight_residual(); then load(). A resumed run then reads its
// checkpoint, which replaces what load() stored.
class AdapterStart {
 public:
  // Computes A and B, of dtype `type`, from the weights in the model's folder. Each rank decomposes
  // some of the modules and broadcasts their A and B to all ranks. Collective over all ranks.
  // Throws ConfigError if an adapter's rank exceeds the number of singular values. `specification`
  // must have an adapter, and must outlive the result.
  static AdapterStart of_weights(const models::ModelSpecification& specification,
                                 at::ScalarType type, const ParallelContext& context);
  // Reads the initial A and B from a checkpoint of the run, when the run resumes. Each rank reads
  // all of them; not collective. The checkpoint stores the trained and the initial A of a module in
  // one tensor [2 r, in], and the trained B and minus the initial B in one tensor [out, 2 r].
  // Throws ConfigError if a tensor is missing or has another shape. `specification` must have an
  // adapter, and must outlive the result.
  static AdapterStart of_checkpoint(const models::ModelSpecification& specification,
                                    const std::filesystem::path& checkpoint);

  // Returns the argument `changed` of checkpoint::read_model(), which then replaces each adapted
  // weight W by W - scale * B A while it reads the weight. This object must outlive the result.
  checkpoint::ChangedWeights weight_residual() const;
  // Stores the initial A and B in the trained parameters of the adapters. Also stores A and minus B
  // in the frozen parameters that keep the initial values for checkpoints. chunks: the model's
  // parameters.
  void load(memory::ChunkEngine& chunks) const;

 private:
  explicit AdapterStart(const models::ModelSpecification& specification)
      : specification_(&specification) {}
  struct Pair {
    at::Tensor down, up;  // A, B
  };
  // Returns the adapted product that has `weight`; null if `weight` is not adapted.
  const adapters::Product* product_of(const nn::Parameter& weight) const;
  // Returns the rows of `up`, the B of a whole module, that belong to `product`.
  at::Tensor rows_of(const adapters::Product& product, const at::Tensor& up) const;
  // Returns this rank's shard of W - scale * B A, in fp64. here: this rank's shard of W.
  at::Tensor residual_of(const nn::Parameter& weight, const at::Tensor& here) const;

  const models::ModelSpecification* specification_;
  std::map<std::string, Pair> initial_by_module_;  // by the module's name in the model's files
};

}  // namespace colossal
