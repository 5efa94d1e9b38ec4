// A model family (models with one model_type, such as "llama") as data: how its config.json is
// read, how its weights are named in files, and its published sizes. docs/extending.md explains how
// to add a family.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colossal/models/config_fields.h"
#include "colossal/models/text_tower.h"
#include "colossal/models/transformer_config.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

// A published size of a family.
struct Preset {
  std::string name;       // such as "llama3.1-8b"
  nlohmann::json fields;  // fields of its config.json, without model_type
};

struct Family {
  std::string model_type;    // model_type in config.json
  std::string architecture;  // the transformers class that loads the model
  // What fields stand for that a config.json leaves out, where `read` has no default: the values of
  // transformers' configuration class. Fields that are null have none of these values.
  nlohmann::json defaults;
  // Other names of fields, each with the name that `read` knows. As in transformers (attribute_map)
  // a field under its other name replaces the one under the name that is known.
  std::vector<std::pair<std::string_view, std::string_view>> other_names = {};
  // Rewrites a config.json so that each setting is in exactly one field, which a run can override.
  // Null: not needed.
  void (*simplify)(nlohmann::json& config) = nullptr;
  // Reads all fields that affect the computation. Throws FieldError.
  TransformerConfig (*read)(ConfigFields& fields) = nullptr;
  // Sets the head for scores (TransformerConfig::scores, which the caller sets) of the family's
  // class for sequence classification. Throws FieldError. Null: a linear layer without bias, whose
  // scores at the last token count, as all decoders have.
  void (*read_scores)(ConfigFields& fields, TransformerConfig& config) = nullptr;
  // Reads the tower for texts of the family's class for contrastive training, "..Model", and sets
  // the head of `images`, its tower for images. Throws FieldError. Null: there is no such class.
  TextTower (*read_text_tower)(ConfigFields& fields, TransformerConfig& images) = nullptr;
  // Sets the head of the family's class for masked images (TransformerConfig::reconstructs). Throws
  // FieldError. Null: transformers has no such class.
  void (*read_reconstruction)(ConfigFields& fields, TransformerConfig& config) = nullptr;
  // Returns the names of the weights in files.
  WeightNames (*weights)(const TransformerConfig& config) = nullptr;
  std::vector<Preset> presets;
  // What precedes the names of all tensors but those of heads. Folders of the class without a head,
  // such as BertModel, leave it out. Empty: such folders are not supported.
  std::string body;
  // model_type of multimodal models whose text_config describes a model of this family. Only the
  // text model of such a folder is read. Null: there are no such models.
  const char* multimodal_model_type = nullptr;
  // End of the name of the transformers class that gives scores.
  std::string_view scoring_class = "ForSequenceClassification";
};

// Returns all supported families.
const std::vector<Family>& families();

}  // namespace colossal::models
