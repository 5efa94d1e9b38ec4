// Merges a LoRA adapter into the weights of its model, for write_merged_folder(). The merged
// weights give the outputs of the model with the adapter, up to rounding. Serving also uses
// AdapterMerge, for DoRA's factors.
//
// LoRA: "LoRA: Low-Rank Adaptation of Large Language Models" (Hu et al., 2021). A linear layer of
// weight W [out, in] gets W + scale * B A, with A [rank, in] and B [out, rank]. DoRA:
// "Weight-Decomposed Low-Rank Adaptation" (Liu et al., 2024). It also scales each row to a trained
// magnitude. `module` is a layer's name in the model's files, without ".weight".
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>

#include "colossal/io/safetensors.h"
#include "colossal/models/families.h"

namespace colossal::checkpoint {

class AdapterMerge {
 public:
  // Opens the file of the adapter specification.adapter, which must be set and have a folder.
  // Throws ConfigError if the adapter is a prefix, if it adapts a table that embedding and head of
  // an encoder or encoder-decoder share, or if the file lacks A, B or, with DoRA, the magnitudes of
  // an adapted module. Tensors of experts are not checked here.
  explicit AdapterMerge(const models::ModelSpecification& specification);

  // Returns a tensor of the model's files with the adapter merged, in the dtype of `weight`.
  // Computes in fp64 and rounds once. If the adapter has a tensor that replaces the whole tensor
  // (modules_to_save of PEFT), returns the adapter's tensor, rounded, which may have more rows if
  // it is a table. Returns `weight` itself if the adapter does not change the tensor. Throws
  // ConfigError if shapes do not fit, or if the adapter lacks a tensor of experts. name, weight:
  // the tensor's name and values in the model's files. For the name of a head that shares the
  // embedding's table, pass this table.
  at::Tensor merged(const std::string& name, const at::Tensor& weight) const;
  // Returns, in fp64, the tensor by which the adapter replaces the tensor `name` of the model's
  // files (modules_to_save of PEFT). Undefined if the adapter does not replace it.
  at::Tensor replacement(const std::string& name) const;
  // Returns the factors by which DoRA multiplies the outputs of a module: fp64 [out]. They are
  // magnitude / norm, with the norm of each row of W + scale * B A. weight: the module's weight as
  // stored in files. Throws InternalError if the adapter does not adapt the module. Throws
  // ConfigError if the adapter is not a DoRA adapter, or if shapes do not fit.
  at::Tensor factors(const std::string& module, const at::Tensor& weight) const;

 private:
  // Returns whether files store the weight of this layer as [in, out].
  bool is_stored_in_out(const adapters::Product& product) const {
    return stored_in_out_ && product.is_of_blocks();
  }
  // Returns an embedding table, [vocabulary, features], with the adapter merged.
  at::Tensor merged_table(const std::string& module, const at::Tensor& table) const;
  // Returns an expert's weight, or the stacked weights of all experts, with the adapter merged.
  at::Tensor merged_experts(const std::string& name, const at::Tensor& weight) const;
  // Returns W + scale * B A in fp64. weight: W, [out, in].
  at::Tensor changed(const std::string& module, const at::Tensor& weight) const;
  // Returns factors(), from the result `changed` of the function changed().
  at::Tensor factors_of(const std::string& module, const at::Tensor& changed) const;
  // Returns a tensor of the adapter's file in fp64. tensor: its name in the file.
  at::Tensor read(const std::string& tensor) const;
  // For a tensor of the model's files that belongs to experts: where the adapter's file has its A
  // and B. The tensor is the weight of one expert's linear layer, or the weights of all experts for
  // this layer, [experts, in, out].
  struct ExpertWeight {
    const adapters::Product* product =
        nullptr;                    // the entry of adapter_ for this layer of all experts
    std::optional<int64_t> expert;  // index of the expert; nullopt: all experts
    TensorSlice down, up;           // where the adapter's file has A and B
  };
  // Returns a tensor of the adapter for a module in fp64: A [rank, in], B [out, rank], or
  // magnitudes [out]. name: of the tensor, such as "lora_A".
  at::Tensor read(const std::string& module, const char* name) const;

  models::ModelAdapter adapter_;
  bool stored_in_out_;  // whether files store the weights of blocks as [in, out]
  int64_t vocabulary_;  // rows of the tables with the adapter
  io::SafetensorsReader file_;
  std::map<std::string, ExpertWeight> experts_;  // by the tensor's name in the model's files
};

}  // namespace colossal::checkpoint
