// PatchEmbedding: the first layer of a vision transformer (A. Dosovitskiy et al., "An Image Is
// Worth 16x16 Words", 2020). It cuts images into square patches and turns each patch into a token.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/nn/activation_part.h"
#include "colossal/nn/parameter.h"
#include "colossal/nn/step_context.h"

namespace colossal::nn {

class Builder;

// Tokens that precede the patches and are the same in all images, such as a class token.
struct PrefixTokens {
  std::string name;  // of the parameter, [1, count, features], or [features] if `is_vector`
  int64_t count = 1;
  bool is_vector = false;     // only of one token
  bool has_positions = true;  // whether position embeddings are added to them
  bool operator==(const PrefixTokens&) const = default;
};

// Parameters:
//   NAME.weight     [features, channels, patch, patch]; a patch has its channels one after the
//                   other, each row by row
//   NAME.bias       [features], if `bias`
//   NAME.positions  position embeddings: one row for each prefix token that has positions, then one
//                   for each patch, row by row; [rows, features], or [1, rows, features] if
//                   `positions_with_batch`
//   NAME.mask_token as `mask_token` says; the embedding of a masked patch, before its position
//   and those of `prefix`, each as NAME.(its name)
struct PatchEmbeddingOptions {
  int64_t height = 0, width = 0;  // of the images, in pixels; what a patch does not fill is cut off
  int64_t channels = 3;
  int64_t patch = 16;  // pixels along a side of a patch
  int64_t features = 0;
  bool bias = true;
  std::vector<PrefixTokens> prefix = {};
  // Rows and columns of patches for which there are position embeddings; 0: those of the images. If
  // images have others, embeddings are interpolated bicubically (align_corners = false, A = -0.75).
  int64_t position_rows = 0, position_columns = 0;
  bool positions_with_batch = true;
  enum class MaskToken {
    none,
    frozen,   // [1, features]; no patch is masked
    trained,  // [1, 1, features]; each batch says which patches are masked
  };
  MaskToken mask_token = MaskToken::none;
  Initializer initializer = Initializer::normal(0.02);  // of all but the bias

  int64_t rows() const { return height / patch; }  // of patches
  int64_t columns() const { return width / patch; }
  int64_t num_prefix_tokens() const;
  int64_t num_tokens() const { return num_prefix_tokens() + rows() * columns(); }
  // Number of rows of NAME.positions.
  int64_t num_positions() const;
  bool operator==(const PatchEmbeddingOptions& other) const;
};

// Return what belongs to the tokens context.tokens().positions, which index the prefix tokens and
// then the patches, with zeros at prefix tokens. pixels_of_tokens(): the pixels of each patch,
// [batch, sequence, channels * patch * patch], in the order of those of NAME.weight; images:
// [batch, channels, height, width]. masks_of_tokens(): [batch, sequence]; masks: [batch, patches].
at::Tensor pixels_of_tokens(const at::Tensor& images, const PatchEmbeddingOptions& options,
                            const StepContext& context);
at::Tensor masks_of_tokens(const at::Tensor& masks, const PatchEmbeddingOptions& options,
                           const StepContext& context);

// Returns images from the values of their patches: [batch, channels, rows * patch, columns *
// patch]. of_patches: [batch, patches, channels * patch * patch], in the order of
// pixels_of_tokens().
at::Tensor images_of_patches(const at::Tensor& of_patches, const PatchEmbeddingOptions& options);

// Written once for all tensor modes: this rank computes its features of its tokens from the whole
// patches, without communication.
class PatchEmbedding {
 public:
  PatchEmbedding(Builder& build, const std::string& name, const PatchEmbeddingOptions& options);

  // images: [batch, channels, height, width] of any floating-point dtype. masks: [batch, patches]
  // bool, whether a patch is masked; with MaskToken::trained only, else undefined. Returns the
  // embeddings of the tokens context.tokens().positions, which index the prefix tokens and then the
  // patches.
  at::Tensor forward(const at::Tensor& images, const at::Tensor& masks,
                     const StepContext& context) const;

 private:
  // Returns what is added to each token: [tokens, features on this rank].
  at::Tensor added_rows(LayerScope& scope) const;
  // Returns what is added to masked patches besides: [features on this rank].
  at::Tensor added_to_masked(LayerScope& scope) const;
  at::Tensor interpolated(const at::Tensor& of_patches) const;

  PatchEmbeddingOptions options_;
  ParameterHandle weight_, bias_, positions_;  // this rank's features; bias_: may be empty
  std::vector<ParameterHandle> prefix_;        // one for each of options_.prefix
  ParameterHandle mask_token_;                 // with MaskToken::trained, else empty
  TokenPart token_part_;
};

}  // namespace colossal::nn
