// What CLIP (A. Radford et al., "Learning Transferable Visual Models From Natural Language
// Supervision", 2021) and SigLIP (X. Zhai et al., "Sigmoid Loss for Language Image Pre-Training",
// 2023) share: a model of two towers, one for images and one for texts, in config.json as the
// objects vision_config and text_config.
#pragma once

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
  bool has_pooling_head = false;         // vision_use_head, which models that give classes lack
};

// Returns the configuration of the tower for images, from the field vision_config. Ignores the
// fields of the tower for texts. Throws FieldError.
TransformerConfig read_image_tower(ConfigFields& fields, ImageTower tower);

// Replaces vision_config and text_config by vision_config_dict and text_config_dict, which
// transformers prefers in folders of its first releases.
void use_whole_tower_configs(nlohmann::json& config);

// Returns the names of the tower for images and of the head that gives images classes.
WeightNames image_tower_names();

// A published size.
Preset tower_preset(const char* name, const char* architecture, int64_t layers, int64_t hidden,
                    int64_t heads, int64_t patch);

}  // namespace colossal::models
