// Where a decoder's parameters lie in Hugging Face files, by tables of layers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "colossal/layout/tensor_slice.h"
#include "colossal/models/decoder_config.h"

namespace colossal::models {

// A layer of ours and the one of the file that holds it. Parameters keep their last name ("weight",
// "bias"); one that files name otherwise is here by its whole name, before its layer.
struct LayerName {
  // Rows of a file's layer that are a layer of ours.
  struct Rows {
    std::vector<Range> runs;
    int64_t total = 0;  // of the file's layer
  };

  std::string_view ours, theirs;
  Rows rows{};  // no total: all
  // Layers of the file that hold an index of the first dim of ours each; "{}" in `theirs` is their
  // number. 0: one layer holds all.
  int64_t stacked = 0;
};

struct WeightNames {
  std::string_view blocks;  // what precedes a block's number: "transformer.h."
  std::vector<LayerName> of_a_block;
  std::vector<LayerName> others;
  // Ends of the names of tensors that older files hold and that the model computes itself.
  std::vector<std::string_view> computed = {};
  // Beginnings of the names of tensors that files hold and no layer of ours uses.
  std::vector<std::string> unused = {};

  // Of a block: gives a layer of ours another place, or its first one.
  void set(std::string_view ours, std::string_view theirs, LayerName::Rows rows = {});
};

// Throws InternalError for a parameter that the tables do not have.
TensorSlice slice_of(const WeightNames& names, const std::string& parameter);

// Queries, keys and values one after the other.
LayerName::Rows stacked_queries(const DecoderConfig& config);
LayerName::Rows stacked_keys(const DecoderConfig& config);
LayerName::Rows stacked_values(const DecoderConfig& config);
// For each head of keys, the heads of queries that see it, that head, and its values.
LayerName::Rows grouped_queries(const DecoderConfig& config);
LayerName::Rows grouped_keys(const DecoderConfig& config);
LayerName::Rows grouped_values(const DecoderConfig& config);
// Of latent attention: in each head of a file's queries those features come last that turn.
LayerName::Rows latent_queries(const DecoderConfig& config);
// Gate and up one after the other.
LayerName::Rows stacked_gate(const DecoderConfig& config);
LayerName::Rows stacked_up(const DecoderConfig& config);

}  // namespace colossal::models
