// The fields of batches of pairs of an image and a text, besides those of images (image_batch.h)
// and of texts (text_batch.h, without labels), that models of two towers are trained on.
#pragma once

namespace colossal::data {

// What the comparison of all images of the global batch with all texts says about a row
// (engine/contrastive_loss.h), in fp32 (fp64 for an fp64 model): the gradients of the sum of all
// pairs' losses by its vectors of unit length, [rows, features]; its share of the gradients by
// logit_scale and logit_bias, and its loss, [rows]; and whether the text that is most similar to
// its image is its own, [rows].
inline constexpr const char* kImageGradients = "image_gradients";
inline constexpr const char* kTextGradients = "text_gradients";
inline constexpr const char* kScaleGradients = "scale_gradients";
inline constexpr const char* kBiasGradients = "bias_gradients";
inline constexpr const char* kPairLosses = "pair_losses";
inline constexpr const char* kPairMatches = "pair_matches";

}  // namespace colossal::data
