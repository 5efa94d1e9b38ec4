// Parameters of a model: name, global shape, the part that this rank holds, and the tensor itself.
// A Builder registers parameters, memory/ allocates and moves their tensors, and layers read them
// through ParameterHandle.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/nn/model_part.h"

namespace colossal::comm {
class Group;
}
namespace colossal::ops {
class PackedLayout;
struct QuantizedMatrix;
}  // namespace colossal::ops

namespace colossal::nn {

// How a parameter is initialized if no checkpoint provides its values. Element i of the global
// tensor is a pure function of (seed, parameter name, i). So each rank can compute its own part
// without communication.
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

// The order of a stored weight's dims.
enum class WeightOrder {
  out_in,  // W [out, in], Y = X W^T (torch.nn.Linear)
  in_out   // W [in, out], Y = X W (Conv1D of Hugging Face transformers, as in the files of GPT-2)
};

struct Parameter;

class LayerScope;

// Brings a parameter's bytes to the device while layers use it. memory/ implements it; LayerScope
// calls it.
class Residency {
 public:
  virtual ~Residency() = default;
  // Brings the parameter's bytes to the device if they are not there. Returns when operators can
  // read them.
  virtual void before_use(Parameter& parameter) = 0;
  // Like before_use(), for a stack of experts of which operators read only the experts with rows.
  // counts: number of rows that are routed to each expert on this rank.
  virtual void before_use_of(Parameter& parameter, const std::vector<int64_t>& counts) = 0;
  // Ends the use of the parameter. Called once for each before_use() and before_use_of().
  virtual void after_use(Parameter& parameter) = 0;
};

// Which elements of a parameter this rank holds, and which other ranks hold the same elements.
struct Placement {
  // For each dim of the global tensor, the indices on this rank, as ascending disjoint ranges.
  // Indices that are in no range are left out of the tensor on this rank. Empty: this rank holds
  // all elements.
  std::vector<std::vector<Range>> held;
  // The group over which gradients of the parameter are summed. All its ranks hold the same
  // elements. Null: the data group (ParallelContext::data_group()). Must outlive the parameter.
  const comm::Group* reduction = nullptr;
  // The ranks of `reduction` count as one copy of the elements. Other ranks may hold further
  // copies, each with a `reduction` of its own; after the sums over these groups, the gradients of
  // all copies are equal. num_replicas is the number of copies, including this rank's; `replica` is
  // the index of this rank's copy. Only copy 0 is counted in norms and is written to checkpoints.
  int num_replicas = 1;
  int replica = 0;
  // The pipeline stage of the layer that reads the parameter. If a second layer reads it (a tied
  // head), tied_stage is the stage of that layer. No other stage holds the parameter.
  int stage = 0;
  std::optional<int> tied_stage;
};

// Marks a parameter that is only some rows of a tensor. The tensor then consists of several
// parameters, the blocks. Each block has the name and the shape of the whole tensor.
struct RowBlock {
  int index = 0;  // of this block among this rank's blocks of the tensor, in row order
  // Number of elements that the blocks with this index have on all ranks together; elements that
  // several ranks hold count once.
  int64_t numel = 0;
};

// What a parameter is, for rules that do not hold for every parameter.
enum class ParameterRole {
  other,
  head_table,  // the table of a vocabulary head
  router_bias  // the correction bias of a router, which a rule of its own changes
};

struct Parameter {
  std::string name;            // path within the model: "blocks.3.mlp_up.weight"
  std::vector<int64_t> shape;  // of the global tensor
  Initializer initializer;
  Placement placement;
  ParameterRole role = ParameterRole::other;
  ModelPart part;  // of the layer that reads the parameter first
  bool trainable = true;
  bool of_adapter = false;  // stored in the adapter's files, even if frozen
  bool of_experts = false;  // dim 0 is the expert index
  bool in_fp32 = false;     // stored in at least fp32, even if the model computes in bf16
  // If the parameter is the weight of a linear layer: the order of its dims. If it is a stack of
  // such weights, [experts, .., ..]: the order of the last two dims. Else nullopt.
  std::optional<WeightOrder> product;
  std::optional<RowBlock> block;  // nullopt: the parameter is a whole tensor
  // This rank's elements; an autograd leaf of shape stored_shape(). Undefined until memory/
  // allocates it, and if the parameter is quantized.
  at::Tensor tensor;
  // Layout of a frozen weight that is packed in int8 or NF4; `tensor` then holds the packed bytes.
  // Null: not packed.
  std::shared_ptr<const ops::PackedLayout> packed;
  // A quantized frozen weight or head table [out, in], which replaces `tensor`. Null: not
  // quantized.
  std::shared_ptr<const ops::QuantizedMatrix> quantized;
  // A quantized stack, which replaces `tensor`: one matrix for each expert on this rank. Empty: not
  // quantized.
  std::vector<std::shared_ptr<const ops::QuantizedMatrix>> quantized_stack;
  // Whether a second layer reads the parameter (the table of a tied head). The second layer reads
  // tied_tensor, another autograd leaf with the same storage as `tensor`. With two leaves, autograd
  // delivers each layer's gradient when it is computed instead of summing both gradients. memory/
  // makes tied_tensor; while it is undefined, both layers read `tensor`.
  bool tied = false;
  at::Tensor tied_tensor;
  Residency* residency = nullptr;  // not owned; null: the bytes are always on the device

  // Returns the number of elements of the global tensor.
  int64_t numel() const;
  // Returns the number of elements of this parameter over all ranks: of the global tensor, or, if
  // the parameter is a block, RowBlock::numel.
  int64_t numel_over_ranks() const { return block ? block->numel : numel(); }
  // Returns whether the parameter is a whole tensor or the first block of a tensor.
  bool begins_tensor() const { return !block || block->index == 0; }
  // Return the shape, or the number, of the elements on this rank.
  std::vector<int64_t> local_shape() const;
  int64_t local_numel() const;
  // Return the shape, or the number of elements, of `tensor`. For a packed weight these are bytes;
  // else they equal local_shape() and local_numel().
  std::vector<int64_t> stored_shape() const;
  int64_t stored_numel() const;
  // Returns the number of bytes of the whole packed weight; numel_over_ranks() if the parameter is
  // not packed.
  int64_t stored_numel_over_ranks() const;
  // Returns the dtype of `tensor` in a model whose working weights have dtype `working`.
  at::ScalarType stored_type(at::ScalarType working) const;
  // Returns whether this rank's elements are contiguous in the flattened global tensor.
  bool is_contiguous_here() const;
  // Elements [begin, begin + count) of the flattened global tensor, which are elements
  // [local_begin, local_begin + count) of this rank's flattened tensor.
  struct Run {
    int64_t begin = 0;
    int64_t local_begin = 0;
    int64_t count = 0;
  };
  // Divides the elements `local` of this rank's flattened tensor into runs that are contiguous in
  // the flattened global tensor, and calls visit() for each run, in ascending order.
  void for_each_run(Range local, const std::function<void(const Run&)>& visit) const;
};

// A shared reference to a parameter, through which layers read it; an empty handle refers to none.
// Several handles may refer to one parameter.
class ParameterHandle {
 public:
  ParameterHandle() = default;
  explicit ParameterHandle(std::shared_ptr<Parameter> parameter)
      : parameter_(std::move(parameter)) {}

  // Returns the tensor to compute with, which stays on the device until `scope` ends. Call use() in
  // each forward pass and do not keep the tensor. Throws InternalError if Parameter::tensor is
  // undefined.
  at::Tensor use(LayerScope& scope) const;

  // Like use(), for a stack of experts of which only the experts with rows are needed. counts:
  // number of rows that are routed to each expert on this rank. The slices of experts without rows
  // must not be read.
  at::Tensor use_of(LayerScope& scope, const std::vector<int64_t>& counts) const;

  // Returns the handle for a second layer that reads the parameter (see Parameter::tied). Throws
  // InternalError if the parameter is tied already.
  ParameterHandle tie() const;

  Parameter& operator*() const { return *parameter_; }
  Parameter* operator->() const { return parameter_.get(); }
  explicit operator bool() const { return parameter_ != nullptr; }
  bool operator==(const ParameterHandle&) const = default;

 private:
  std::shared_ptr<Parameter> parameter_;
  bool reads_tied_ = false;  // whether use() returns Parameter::tied_tensor
};

// Parameters in the order of their registration. Models register parameters in the order in which a
// forward pass uses them.
using ParameterList = std::vector<ParameterHandle>;

// Returns the result of use() for each handle.
std::vector<at::Tensor> used(const std::vector<ParameterHandle>& handles, LayerScope& scope);
// Returns Parameter::quantized for each handle; elements are null for weights that are not
// quantized.
std::vector<std::shared_ptr<const ops::QuantizedMatrix>> quantized_matrices(
    const std::vector<ParameterHandle>& handles);

}  // namespace colossal::nn
