// A model's parameter, and the handle through which layers read it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colossal/base/range.h"

namespace colossal::comm {
class Group;
}
namespace colossal::ops {
class PackedLayout;
struct QuantizedMatrix;
}  // namespace colossal::ops

namespace colossal::nn {

// How a parameter's initial values are made if no checkpoint gives them. Element i of the global
// tensor is a pure function of (seed, name, i), so any slice can be made alone, anywhere.
struct Initializer {
  enum class Kind { constant, normal };
  Kind kind = Kind::constant;
  double value = 0;   // constant: the value; normal: the mean
  double spread = 0;  // normal: the standard deviation

  static Initializer zeros() { return {}; }
  static Initializer ones() { return {.value = 1}; }
  static Initializer normal(double deviation) {
    return {.kind = Kind::normal, .value = 0, .spread = deviation};
  }
};

// Which dimension of a stored weight comes first. out_in: Y = X W^T (torch.nn.Linear). in_out: Y =
// X W (transformers' Conv1D, so that GPT-2's files hold the weights as we do).
enum class WeightOrder { out_in, in_out };

struct Parameter;

class LayerScope;

// Keeps track of where a parameter's bytes rest; memory/ implements it.
class Residency {
 public:
  virtual ~Residency() = default;
  // Called before operators read the parameter: waits for, or fetches, its bytes.
  virtual void before_use(Parameter& parameter) = 0;
  // The same where operators read only some experts of a stack of their weights: those that are
  // here with counts[expert] > 0.
  virtual void before_use_of(Parameter& parameter, const std::vector<int64_t>& counts) = 0;
  // Called when those have run, once for each before_use().
  virtual void after_use(Parameter& parameter) = 0;
};

// Which elements of a parameter are here, and who else has them.
struct Placement {
  // For each dim of the global tensor the ranges of indices here: ascending, disjoint, and stored
  // one after the other. No dims: all elements are here.
  std::vector<std::vector<Range>> held;
  // The ranks that hold the same elements and whose gradients must be summed; null: those of the
  // data group. It outlives the parameter.
  const comm::Group* reduction = nullptr;
  // Ranks outside that group may hold copies of the elements, with the same gradient: how many
  // copies there are, this one included, and which this is. The first counts in norms and goes to
  // checkpoints.
  int num_replicas = 1;
  int replica = 0;
  // The pipeline stage whose layer reads the parameter, and that of a second, tied layer, if there
  // is one. Other stages do not hold it.
  int stage = 0;
  std::optional<int> tied_stage;
};

// A block of a tensor whose rows are cut. Each block is a parameter with the tensor's name and
// shape.
struct RowBlock {
  int index = 0;      // among the blocks here, which hold ascending rows
  int64_t numel = 0;  // of this block, over all ranks that divide the tensor
};

struct Parameter {
  std::string name;            // path within the model: "blocks.3.mlp_up.weight"
  std::vector<int64_t> shape;  // of the global tensor
  Initializer initializer;
  Placement placement;
  bool trainable = true;
  bool of_adapter = false;  // an adapter's files hold it, also where it is frozen
  bool of_experts = false;  // dim 0 counts the experts of a layer
  bool in_fp32 = false;     // at least, also in a model that computes in bf16
  // Set for the weight of a product; of a stack [experts, .., ..] for each expert's.
  std::optional<WeightOrder> product;
  bool head = false;              // a vocabulary head multiplies by this table
  std::optional<RowBlock> block;  // unset: this is the whole tensor
  at::Tensor tensor;  // a leaf, of stored_shape(); undefined until memory/ gives it storage
  // Set for a product's frozen weight that is held in few bits: `tensor` is its bytes.
  std::shared_ptr<const ops::PackedLayout> packed;
  // Instead of `tensor`: a product's frozen weight or a head's table, quantized, [out, in].
  std::shared_ptr<const ops::QuantizedMatrix> quantized;
  // The same of a stack, for each expert that is here; empty: it is not quantized.
  std::vector<std::shared_ptr<const ops::QuantizedMatrix>> quantized_stack;
  // Whether two layers read the parameter (the table of a tied head). The second layer then has a
  // leaf of its own over the same bytes, tied_tensor, so that autograd hands out the gradient of
  // each as soon as it is made and need not sum them. It is undefined until memory/ gives it
  // storage; till then `tensor` serves both.
  bool tied = false;
  at::Tensor tied_tensor;
  Residency* residency = nullptr;

  int64_t numel() const;  // of the global tensor
  int64_t numel_over_ranks() const { return block ? block->numel : numel(); }
  bool begins_tensor() const { return !block || block->index == 0; }
  std::vector<int64_t> local_shape() const;
  int64_t local_numel() const;
  // Of `tensor`: local_shape(), or bytes of a packed weight. stored_numel_over_ranks(): equal on
  // all ranks, and of a packed weight what a rank that had all of it would hold.
  std::vector<int64_t> stored_shape() const;
  int64_t stored_numel() const;
  int64_t stored_numel_over_ranks() const;
  // The type of `tensor` in a model that computes in `working`.
  at::ScalarType stored_type(at::ScalarType working) const;
  // Whether the elements here are one run of the flattened global tensor.
  bool is_contiguous_here() const;
  // Visits elements `local` of the flattened tensor here, run by run: elements [begin, begin +
  // count) of the flattened global tensor are elements [local_begin, local_begin + count) here.
  // Both ascend.
  struct Run {
    int64_t begin = 0;
    int64_t local_begin = 0;
    int64_t count = 0;
  };
  void for_each_run(Range local, const std::function<void(const Run&)>& visit) const;
};

class ParameterHandle {
 public:
  ParameterHandle() = default;
  explicit ParameterHandle(std::shared_ptr<Parameter> parameter)
      : parameter_(std::move(parameter)) {}

  // Returns the weight, which stays here until the layer's scope ends. Call it at each use; never
  // keep the tensor.
  at::Tensor use(LayerScope& scope) const;

  // The same of a stack of experts, of which only those with counts[expert] > 0 need be here.
  at::Tensor use_of(LayerScope& scope, const std::vector<int64_t>& counts) const;

  // Returns the handle of the second layer that reads the parameter; there is no third.
  ParameterHandle tie() const;

  Parameter& operator*() const { return *parameter_; }
  Parameter* operator->() const { return parameter_.get(); }
  explicit operator bool() const { return parameter_ != nullptr; }
  bool operator==(const ParameterHandle&) const = default;

 private:
  std::shared_ptr<Parameter> parameter_;
  bool reads_tied_ = false;  // Parameter::tied_tensor
};

// In order of registration, which for our models is the order of use.
using ParameterList = std::vector<ParameterHandle>;

// Returns use() of each.
std::vector<at::Tensor> used(const std::vector<ParameterHandle>& handles, LayerScope& scope);
// Parameter::quantized of each.
std::vector<std::shared_ptr<const ops::QuantizedMatrix>> in_few_bits(
    const std::vector<ParameterHandle>& handles);

}  // namespace colossal::nn
