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

// How a parameter is initialized if no checkpoint provides its values. Element i of the global
// tensor is a pure function of (seed, name, i), so any rank can make any slice by itself.
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

// The order of a stored weight's dimensions. out_in: Y = X W^T (torch.nn.Linear). in_out: Y = X W
// (Conv1D of Hugging Face transformers, as in the files of GPT-2).
enum class WeightOrder { out_in, in_out };

struct Parameter;

class LayerScope;

// Tracks the tier in which a parameter's bytes are stored; memory/ implements it.
class Residency {
 public:
  virtual ~Residency() = default;
  // Called before operators read the parameter: fetches its bytes to the device if they are not
  // there, and waits for them.
  virtual void before_use(Parameter& parameter) = 0;
  // Called instead of before_use() if operators read only some experts of a stacked parameter:
  // those with counts[expert] > 0. counts: one per expert on this rank.
  virtual void before_use_of(Parameter& parameter, const std::vector<int64_t>& counts) = 0;
  // Called after the operators have run, once per before_use() or before_use_of().
  virtual void after_use(Parameter& parameter) = 0;
};

// Which elements of a parameter are on this rank, and which other ranks hold them.
struct Placement {
  // For each dim of the global tensor, the ranges of indices on this rank: ascending, disjoint. The
  // tensor on this rank has the elements of these ranges, one range after the other. Empty: all
  // elements are on this rank.
  std::vector<std::vector<Range>> held;
  // The ranks that hold the same elements and over which gradients must be summed; null: the data
  // group. The group must outlive the parameter.
  const comm::Group* reduction = nullptr;
  // Ranks outside `reduction` may hold copies of the elements, whose summed gradients are equal.
  // num_replicas: number of copies, with this rank's; replica: index of this rank's copy. Only copy
  // 0 counts in norms and is written to checkpoints.
  int num_replicas = 1;
  int replica = 0;
  // The pipeline stage whose layer reads the parameter, and the stage of the second layer that
  // reads it, if it is tied. Other stages do not hold the parameter.
  int stage = 0;
  std::optional<int> tied_stage;
};

// Says that a parameter is only a block of rows of a tensor. Each block of the tensor is a
// parameter, with the name and shape of the whole tensor.
struct RowBlock {
  int index = 0;      // among this rank's blocks of the tensor, in the order of their rows
  int64_t numel = 0;  // number of elements of all ranks' blocks with this index
};

struct Parameter {
  std::string name;            // path within the model: "blocks.3.mlp_up.weight"
  std::vector<int64_t> shape;  // of the global tensor
  Initializer initializer;
  Placement placement;
  bool trainable = true;
  bool of_adapter = false;  // stored in the adapter's files, even if frozen
  bool of_experts = false;  // dim 0 is the expert index
  bool in_fp32 = false;     // stored in at least fp32, even if the model computes in bf16
  // Set if the parameter is the weight of a linear layer, or a stack of such weights [experts, ..,
  // ..]: the order of the matrix, or of each expert's matrix.
  std::optional<WeightOrder> product;
  bool head = false;              // is the table of a vocabulary head
  std::optional<RowBlock> block;  // nullopt: the parameter is a whole tensor
  at::Tensor tensor;              // a leaf of stored_shape(); undefined until memory/ allocates it
  // Layout of a frozen weight that is packed in int8 or NF4; `tensor` then holds its bytes. Null:
  // not packed.
  std::shared_ptr<const ops::PackedLayout> packed;
  // Replaces `tensor` for a quantized frozen weight or head table, [out, in]. Null: not quantized.
  std::shared_ptr<const ops::QuantizedMatrix> quantized;
  // Replaces `tensor` for a quantized stack: one matrix per expert on this rank. Empty: not
  // quantized.
  std::vector<std::shared_ptr<const ops::QuantizedMatrix>> quantized_stack;
  // Whether two layers read the parameter (the table of a tied head). The second layer then reads
  // tied_tensor, another leaf over the bytes of `tensor`. So autograd delivers each layer's
  // gradient as soon as it is computed instead of summing both. tied_tensor is undefined until
  // memory/ makes it; until then both layers read `tensor`.
  bool tied = false;
  at::Tensor tied_tensor;
  Residency* residency = nullptr;  // not owned; null: the bytes are always on the device

  int64_t numel() const;  // of the global tensor
  // Elements of the global tensor, or of the block over all ranks.
  int64_t numel_over_ranks() const { return block ? block->numel : numel(); }
  bool begins_tensor() const { return !block || block->index == 0; }
  // Shape and number of the elements on this rank.
  std::vector<int64_t> local_shape() const;
  int64_t local_numel() const;
  // Shape and number of elements of `tensor`: those on this rank, or the bytes of this rank's part
  // of a packed weight. stored_numel_over_ranks(): the total over ranks: numel_over_ranks(), or the
  // bytes of the whole packed weight.
  std::vector<int64_t> stored_shape() const;
  int64_t stored_numel() const;
  int64_t stored_numel_over_ranks() const;
  // Returns the dtype of `tensor` in a model whose working weights have dtype `working`.
  at::ScalarType stored_type(at::ScalarType working) const;
  // Whether this rank's elements are one contiguous run of the flattened global tensor.
  bool is_contiguous_here() const;
  // Visits elements `local` of this rank's flattened tensor in ascending runs that are contiguous
  // in the global tensor. A run says that elements [begin, begin + count) of the flattened global
  // tensor are elements [local_begin, local_begin + count) of this rank's flattened tensor.
  struct Run {
    int64_t begin = 0;
    int64_t local_begin = 0;
    int64_t count = 0;
  };
  void for_each_run(Range local, const std::function<void(const Run&)>& visit) const;
};

// A shared reference to a parameter, or empty. Layers read the parameter through it.
class ParameterHandle {
 public:
  ParameterHandle() = default;
  explicit ParameterHandle(std::shared_ptr<Parameter> parameter)
      : parameter_(std::move(parameter)) {}

  // Returns the tensor to compute with, which stays on the device until `scope` ends. Call use() in
  // each forward pass; do not keep the tensor. InternalError if memory/ has not allocated it.
  at::Tensor use(LayerScope& scope) const;

  // Like use(), for a stack of experts, of which only those with counts[expert] > 0 are needed; the
  // rest of the returned tensor must not be read.
  at::Tensor use_of(LayerScope& scope, const std::vector<int64_t>& counts) const;

  // Returns the handle for a second layer that reads the parameter. InternalError if called twice.
  ParameterHandle tie() const;

  Parameter& operator*() const { return *parameter_; }
  Parameter* operator->() const { return parameter_.get(); }
  explicit operator bool() const { return parameter_ != nullptr; }
  bool operator==(const ParameterHandle&) const = default;

 private:
  std::shared_ptr<Parameter> parameter_;
  bool reads_tied_ = false;  // reads Parameter::tied_tensor
};

// Parameters in order of registration, which for Colossal's models is the order of use.
using ParameterList = std::vector<ParameterHandle>;

// Returns use() of each handle.
std::vector<at::Tensor> used(const std::vector<ParameterHandle>& handles, LayerScope& scope);
// Returns Parameter::quantized of each handle; null for weights that are not quantized.
std::vector<std::shared_ptr<const ops::QuantizedMatrix>> quantized_matrices(
    const std::vector<ParameterHandle>& handles);

}  // namespace colossal::nn
