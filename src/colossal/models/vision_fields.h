// What families of vision transformers share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/models/config_fields.h"
#include "colossal/models/family.h"
#include "colossal/models/transformer_config.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

// Values of fields that config.json leaves out.
struct VisionDefaults {
  int64_t patch = 16;
  double norm_epsilon = 1e-12;
};

// Returns the patch embedding that the fields say, of a model of config.hidden features. prefix:
// the tokens before the patches. Throws FieldError.
nn::PatchEmbeddingOptions read_patches(ConfigFields& fields, const TransformerConfig& config,
                                       std::vector<nn::PrefixTokens> prefix, int64_t default_patch);

// Returns the sizes, layer norms, biases and activation of a vision transformer's blocks: an
// encoder with layer norms before its branches, biases everywhere, and an MLP without a gate. The
// size of heads and of the MLP are left to the caller. Throws FieldError.
TransformerConfig read_vision_blocks(ConfigFields& fields, double default_norm_epsilon);

// Checks the number of classes, which is read with the class in config.json, and keeps it in saved
// folders.
void read_number_of_labels(ConfigFields& fields);

// Returns the configuration of a vision transformer with the sizes, the dropout probabilities and
// the patch embedding that the fields say, but not its MLP's. prefix: the tokens before the
// patches. Throws FieldError.
TransformerConfig read_vision_fields(ConfigFields& fields, std::vector<nn::PrefixTokens> prefix,
                                     const VisionDefaults& defaults = {});

// Reads intermediate_size of ViT and DeiT, and ignores the fields of their other heads, but for
// encoder_stride, which read_reconstruction() reads.
void read_vit_mlp(ConfigFields& fields, TransformerConfig& config);

// Sets a head for scores with a bias.
void set_scores(TransformerConfig& config, TransformerConfig::ScoredPosition position);

// Sets the head for reconstructed patches of transformers' class ..ForMaskedImageModeling, and the
// mask token. Throws FieldError if encoder_stride is not patch_size: the reconstruction would have
// another size than the image.
void read_reconstruction(ConfigFields& fields, TransformerConfig& config);

// Returns the names that all families share. body: Family::body without its dot.
WeightNames vision_names(std::string_view body);
// Returns the names of a ViT.
WeightNames vit_names(std::string_view body, const TransformerConfig& config);

// A published size of ViT or DeiT.
Preset vit_preset(const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t patch,
                  const char* architecture);

}  // namespace colossal::models
