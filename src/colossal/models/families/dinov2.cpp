// DINOv2 (M. Oquab et al., "DINOv2: Learning Robust Visual Features without Supervision", 2023), as
// in transformers' Dinov2ForImageClassification.
#include "colossal/models/dinov2_fields.h"
#include "colossal/models/families/list.h"

namespace colossal::models::dinov2 {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_dinov2_fields(fields, {{"class_token"}}, 14);
  if (fields.flag("use_mask_token", true)) {
    config.patches->mask_token = nn::PatchEmbeddingOptions::MaskToken::frozen;
  }
  return config;
}

WeightNames weight_names(const TransformerConfig& config) {
  return dinov2_names("dinov2", config);
}

Preset sized(const char* name, int64_t layers, int64_t hidden, int64_t heads, bool gated) {
  return {name,
          {{"hidden_size", hidden},
           {"num_hidden_layers", layers},
           {"num_attention_heads", heads},
           {"image_size", 518},
           {"use_swiglu_ffn", gated},
           {"architectures", {"Dinov2ForImageClassification"}},
           {"num_labels", 1000}}};
}

}  // namespace

Family family() {
  return {.model_type = "dinov2",
          .architecture = "Dinov2ForImageClassification",
          .defaults = kDinov2Defaults,
          .read = read,
          .read_scores = read_dinov2_scores,
          .weights = weight_names,
          .presets = {sized("dinov2-small", 12, 384, 6, false),
                      sized("dinov2-base", 12, 768, 12, false),
                      sized("dinov2-large", 24, 1024, 16, false),
                      sized("dinov2-giant", 40, 1536, 24, true)},
          .body = "dinov2.",
          .scoring_class = "ForImageClassification"};
}

}  // namespace colossal::models::dinov2
