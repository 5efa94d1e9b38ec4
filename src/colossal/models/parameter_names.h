// Names of parameters in Hugging Face files, by tables of layers.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace colossal::models {

// Pairs of our name of a layer and theirs.
struct LayerNames {
  using Pairs = std::vector<std::pair<std::string_view, std::string_view>>;
  std::string_view blocks;  // what precedes a block's number: "transformer.h."
  Pairs of_a_block;
  Pairs others;
  // Ends of the names of tensors that older files hold and that the model computes itself.
  std::vector<std::string_view> computed = {};
};

// "blocks.3.mlp_up.weight" -> "transformer.h.3.mlp.c_fc.weight". Throws InternalError for a name
// that the tables do not have.
std::string hugging_face_name(const LayerNames& names, const std::string& parameter);

}  // namespace colossal::models
