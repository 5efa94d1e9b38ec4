// TextTower: what a model of two towers has besides its tower for images (A. Radford et al.,
// "Learning Transferable Visual Models From Natural Language Supervision", 2021).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "colossal/models/transformer_config.h"

namespace colossal::models {

// The tower for images and the tower for texts each give a vector of `features` features, of unit
// length. The logit of an image and a text is exp(logit_scale) times the product of their vectors,
// plus logit_bias; pairs that belong together are to have large logits, all others small ones.
struct TextTower {
  TransformerConfig transformer;

  int64_t features = 0;
  // The token whose final state, after the final norm, stands for the text.
  enum class Pooled {
    end,      // the first `end_token`
    highest,  // the first of the tokens with the highest number
    last      // the last token of the row
  };
  Pooled pooled = Pooled::end;
  int64_t end_token = 0;
  // Fills rows up to the longest text or, if the tower is not causal and so sees it, up to all
  // positions.
  int64_t pad_token = 0;
  bool projection_bias = false;  // of the projection of texts

  enum class Loss {
    // The mean of the cross-entropies of each image's text among all texts, and of each text's
    // image among all images.
    softmax,
    // The sum over all texts of the binary cross-entropy of "belongs to the image" (X. Zhai et al.,
    // "Sigmoid Loss for Language Image Pre-Training", 2023).
    sigmoid
  };
  Loss loss = Loss::softmax;
  double logit_scale = 0;              // at first
  std::optional<double> logit_bias{};  // at first; nullopt: there is none

  // The shape of the parameters logit_scale and logit_bias.
  std::vector<int64_t> scalar_shape() const {
    return loss == Loss::softmax ? std::vector<int64_t>{} : std::vector<int64_t>{1};
  }
  bool operator==(const TextTower&) const = default;
};

// Returns the index of the token of a row, padding included, that stands for its text. A row
// without the token for the end has the index of the last one.
int64_t pooled_token(const TextTower& texts, std::span<const int64_t> row);

// Returns the sizes of a model of both towers. `layers` and `parameters` are those of both, and
// `heads` and `kv_heads` the smaller ones; the others are those of the tower for images.
ModelFacts facts(const TransformerConfig& images, const TextTower& texts);

}  // namespace colossal::models
