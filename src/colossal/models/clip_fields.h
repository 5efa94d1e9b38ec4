// What CLIP (A. Radford et al., "Learning Transferable Visual Models From Natural Language
// Supervision", 2021) and SigLIP (X. Zhai et al., "Sigmoid Loss for Language Image Pre-Training",
// 2023) share: a model of two towers, one for images and one for texts, in config.json as the
// objects vision_config and text_config.
#pragma once

#include <optional>
#include <vector>

#include "colossal/models/config_fields.h"
#include "colossal/models/family.h"
#include "colossal/models/transformer_config.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

// What differs between towers for images.
struct ImageTower {
  std::vector<nn::PrefixTokens> prefix;  // tokens before the patches
  nlohmann::json defaults;               // of the fields of vision_config
  // vision_use_head: whether the model, as it is loaded, has that head; nullopt: the family has
  // none.
  std::optional<bool> pooling_head = std::nullopt;
};

// Returns the configuration of the tower for images, from the field vision_config. Ignores the
// fields of the tower for texts. Throws FieldError.
TransformerConfig read_image_tower(ConfigFields& fields, ImageTower tower);

// What differs between towers for texts.
struct TextTowerForm {
  nlohmann::json defaults;  // of the fields of text_config
  bool causal = true;
};

// Returns the blocks and embeddings of the tower for texts, from the field text_config. Sets
// end_token and pad_token, and `features` to the field projection_size of text_config (0: there is
// none). Throws FieldError.
TextTower read_text_tower(ConfigFields& fields, const TextTowerForm& form);

// Replaces vision_config and text_config by vision_config_dict and text_config_dict, which
// transformers prefers in folders of its first releases.
void use_whole_tower_configs(nlohmann::json& config);

// Returns the names of both towers and of the head that gives images classes. images: the tower for
// images.
WeightNames tower_names(const TransformerConfig& images);

// A published size. The towers have as many layers unless the texts' has its own.
struct TowerSizes {
  int64_t layers = 12, hidden = 768, heads = 12;
};
Preset tower_preset(const char* name, const char* architecture, const TowerSizes& images,
                    int64_t patch, const TowerSizes& texts);

}  // namespace colossal::models
