// Maps the names of a Transformer's parameters to the tensors of Hugging Face files. Each family
// has a WeightNames; ours: a name in the Transformer, theirs: a name in the files.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colossal/layout/tensor_slice.h"
#include "colossal/models/transformer_config.h"

namespace colossal::models {

// Maps one layer of the Transformer to the layer of the files that holds its parameters, whose
// names have the same last component ("weight", "bias") in both. A parameter whose last component
// differs has a LayerMapping of its own: `ours` and `theirs` are then names of the parameter, with
// the last component.
struct LayerMapping {
  // Rows of a layer in the files that belong to the layer of the Transformer: indices of dim 0 of
  // the files' weight and bias, so not for weights that files store as [in, out].
  struct Rows {
    std::vector<Range> runs;  // in the Transformer's order
    int64_t total = 0;        // number of rows of the layer in the files
  };

  std::string ours, theirs;  // names of the layer: "query", "self_attn.q_proj"
  Rows rows{};               // total = 0: all rows belong to the Transformer's layer
  // The columns of the weight in the files that belong to the Transformer's layer; only for layers
  // without bias. num_columns: number of columns of the weight in the files; 0: all belong to the
  // Transformer's layer.
  Range columns{};
  int64_t num_columns = 0;
  // Number of layers in the files, one for each expert, that the Transformer holds as one layer,
  // with the weight [experts, out, in]. "{}" in `theirs` stands for the expert's index. 0: the
  // files have a single layer.
  int64_t stacked = 0;
  int64_t num_ones = 0;  // TensorSlice::num_ones; only in a mapping of a parameter
};

// The names of all weights of a family.
struct WeightNames {
  std::string blocks;  // what precedes a block's number in the files: "transformer.h."
  // Layers of a block. Their names are without the block's prefix, such as "transformer.h.3.".
  std::vector<LayerMapping> of_a_block;
  std::vector<LayerMapping> others;  // all other layers, with their full names
  // Suffixes of tensors in older files that the Transformer does not read because it computes them.
  std::vector<std::string_view> computed = {};
  // Tensors that some files have in addition, as copies of others: the names of copy and original.
  std::vector<std::pair<std::string_view, std::string_view>> copies = {};
  // Of an encoder-decoder: the number of its encoder's blocks, and what precedes their numbers in
  // the files. `blocks` is then of the decoder, whose blocks the files number from 0, too.
  int64_t encoder_layers = 0;
  std::string encoder_blocks = {};
  // Layers of a block of the encoder, if they have other names than in a block of the decoder.
  std::vector<LayerMapping> of_an_encoder_block = {};
  // Prefixes of other tensors in the files that the Transformer does not use.
  std::vector<std::string> unused = {};

  // Returns what precedes the name of a layer of block number `block` in the files:
  // "model.layers.3."
  std::string prefix_of(int64_t block) const;
  // Adds or replaces the entry of the layer `ours` in of_a_block.
  void set(const std::string& ours, const std::string& theirs, LayerMapping::Rows rows = {});
};

// Returns where the files store the Transformer's parameter `parameter`, such as
// "blocks.3.query.weight". Throws InternalError if `names` has no entry for it.
TensorSlice slice_of(const WeightNames& names, const std::string& parameter);

// Return the rows of the queries, keys or values in a fused layer that has all queries, then all
// keys, then all values.
LayerMapping::Rows stacked_queries(const TransformerConfig& config);
LayerMapping::Rows stacked_keys(const TransformerConfig& config);
LayerMapping::Rows stacked_values(const TransformerConfig& config);
// Return the rows of the queries, keys or values in a fused layer that has a group for each key
// head: the query heads that use the key head, the key head, and its value head.
LayerMapping::Rows grouped_queries(const TransformerConfig& config);
LayerMapping::Rows grouped_keys(const TransformerConfig& config);
LayerMapping::Rows grouped_values(const TransformerConfig& config);
// Returns the rows of latent attention's queries in the files, in the Transformer's order: the
// rotary features of each head are its last in the files and its first in the Transformer.
LayerMapping::Rows latent_queries(const TransformerConfig& config);
// Return the rows of the gate or the up projection in a fused layer that has all rows of the gate,
// then all rows of up.
LayerMapping::Rows stacked_gate(const TransformerConfig& config);
LayerMapping::Rows stacked_up(const TransformerConfig& config);

}  // namespace colossal::models
