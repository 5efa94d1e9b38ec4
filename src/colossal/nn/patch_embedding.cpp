#include "colossal/nn/patch_embedding.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/upsample_bicubic2d.h>

#include "colossal/base/error.h"
#include "colossal/nn/builder.h"
#include "colossal/nn/layer_scope.h"
#include "colossal/ops/product/fused_linear.h"

namespace colossal::nn {

int64_t PatchEmbeddingOptions::num_prefix_tokens() const {
  int64_t count = 0;
  for (const PrefixTokens& tokens : prefix) count += tokens.count;
  return count;
}

int64_t PatchEmbeddingOptions::num_positions() const {
  int64_t count = position_rows > 0 ? position_rows * position_columns : rows() * columns();
  for (const PrefixTokens& tokens : prefix) count += tokens.has_positions ? tokens.count : 0;
  return count;
}

bool PatchEmbeddingOptions::operator==(const PatchEmbeddingOptions& other) const {
  return height == other.height && width == other.width && channels == other.channels &&
         patch == other.patch && features == other.features && bias == other.bias &&
         prefix == other.prefix && position_rows == other.position_rows &&
         position_columns == other.position_columns && mask_token == other.mask_token;
}

namespace {

// Returns the pixels of each patch: [batch, patches, channels * patch * patch].
at::Tensor patches_of(const at::Tensor& images, const PatchEmbeddingOptions& options) {
  COLOSSAL_CHECK(images.dim() == 4 && images.size(1) == options.channels &&
                     images.size(2) == options.height && images.size(3) == options.width,
                 "images of {} instead of [batch, {}, {}, {}]", fmt::join(images.sizes(), " x "),
                 options.channels, options.height, options.width);
  const int64_t rows = options.rows(), columns = options.columns(), size = options.patch;
  return images.narrow(2, 0, rows * size)
      .narrow(3, 0, columns * size)
      .view({images.size(0), options.channels, rows, size, columns, size})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({images.size(0), rows * columns, options.channels * size * size});
}

// Returns the values of the tokens context.tokens().positions. of_patches: [batch, patches, ..].
at::Tensor values_of_tokens(const at::Tensor& of_patches, const PatchEmbeddingOptions& options,
                            const StepContext& context) {
  std::vector<int64_t> before(2 * (of_patches.dim() - 1), 0);  // begins with the last dim
  before[before.size() - 2] = options.num_prefix_tokens();
  const at::Tensor of_all = at::constant_pad_nd(of_patches, before);
  COLOSSAL_CHECK(context.tokens().positions.dim() == 1,
                 "positions of patches that differ between images");
  return context.tokens().sequence < context.tokens().whole_sequence
             ? of_all.index_select(1, context.tokens().positions)
             : of_all;
}

}  // namespace

at::Tensor pixels_of_tokens(const at::Tensor& images, const PatchEmbeddingOptions& options,
                            const StepContext& context) {
  return values_of_tokens(patches_of(images, options), options, context);
}

at::Tensor images_of_patches(const at::Tensor& of_patches, const PatchEmbeddingOptions& options) {
  const int64_t rows = options.rows(), columns = options.columns(), size = options.patch;
  return of_patches.reshape({of_patches.size(0), rows, columns, options.channels, size, size})
      .permute({0, 3, 1, 4, 2, 5})
      .reshape({of_patches.size(0), options.channels, rows * size, columns * size});
}

at::Tensor masks_of_tokens(const at::Tensor& masks, const PatchEmbeddingOptions& options,
                           const StepContext& context) {
  COLOSSAL_CHECK(masks.dim() == 2 && masks.size(1) == options.rows() * options.columns(),
                 "masks of {} instead of [batch, {}]", fmt::join(masks.sizes(), " x "),
                 options.rows() * options.columns());
  return values_of_tokens(masks, options, context);
}

PatchEmbedding::PatchEmbedding(Builder& build, const std::string& name,
                               const PatchEmbeddingOptions& options)
    : options_(options), token_part_(build.token_part()) {
  const auto make = [&](const std::string& part, const std::vector<int64_t>& shape, size_t features,
                        const Initializer& initializer) {
    return build.parameter(name, part, shape, initializer, build.of_features(shape, features));
  };
  weight_ = make("weight", {options.features, options.channels, options.patch, options.patch}, 0,
                 options.initializer);
  if (options.bias) bias_ = make("bias", {options.features}, 0, Initializer::zeros());
  for (const PrefixTokens& tokens : options.prefix) {
    prefix_.push_back(
        tokens.is_vector
            ? make(tokens.name, {options.features}, 0, options.initializer)
            : make(tokens.name, {1, tokens.count, options.features}, 2, options.initializer));
  }
  using MaskToken = PatchEmbeddingOptions::MaskToken;
  if (options.mask_token == MaskToken::frozen) {
    make("mask_token", {1, options.features}, 1, Initializer::zeros())->trainable = false;
  } else if (options.mask_token == MaskToken::trained) {
    mask_token_ = make("mask_token", {1, 1, options.features}, 2, Initializer::zeros());
  }
  const int64_t rows = options.num_positions();
  positions_ = options.positions_with_batch
                   ? make("positions", {1, rows, options.features}, 2, options.initializer)
                   : make("positions", {rows, options.features}, 1, options.initializer);
}

// Prefix tokens have no pixels: their patches are zeros, to whose product their own rows are added.
// Masked patches are zeros, too.
at::Tensor PatchEmbedding::forward(const at::Tensor& images, const at::Tensor& masks,
                                   const StepContext& context) const {
  LayerScope scope = scope_of(weight_);
  const bool has_masks = options_.mask_token == PatchEmbeddingOptions::MaskToken::trained;
  COLOSSAL_CHECK(has_masks == masks.defined(), "masks of a model that {} them",
                 has_masks ? "lacks" : "does not know");
  const at::Tensor weight = weight_.use(scope).flatten(1);
  at::Tensor patches = pixels_of_tokens(images.to(weight.scalar_type()), options_, context);
  at::Tensor masked;  // [.., 1]
  if (has_masks) {
    masked = masks_of_tokens(masks, options_, context).unsqueeze(-1);
    patches = patches.masked_fill(masked, 0);
  }
  at::Tensor embeddings;
  const at::Tensor& positions = context.tokens().positions;
  if (!token_part_) {
    embeddings =
        ops::fused_linear(patches, {{weight}, {}}) + added_rows(scope).index_select(0, positions);
  } else {
    const at::Tensor here =
        token_part_(positions.expand({context.tokens().batch, context.tokens().sequence}), context);
    embeddings = ops::fused_linear(token_part_(patches, context), {{weight}, {}}) +
                 at::embedding(added_rows(scope), here);
    if (has_masks) masked = token_part_(masked, context);
  }
  if (!has_masks) return embeddings;
  return embeddings + masked.to(embeddings.scalar_type()) * added_to_masked(scope);
}

at::Tensor PatchEmbedding::added_to_masked(LayerScope& scope) const {
  const at::Tensor token = mask_token_.use(scope).flatten();
  return bias_ ? token - bias_.use(scope) : token;
}

at::Tensor PatchEmbedding::added_rows(LayerScope& scope) const {
  const PatchEmbeddingOptions& options = options_;
  const at::Tensor positions = positions_.use(scope).flatten(0, -2);
  std::vector<at::Tensor> rows;
  int64_t used = 0;  // rows of `positions`
  for (size_t i = 0; i < options.prefix.size(); ++i) {
    const at::Tensor tokens = prefix_[i].use(scope).reshape({options.prefix[i].count, -1});
    if (!options.prefix[i].has_positions) {
      rows.push_back(tokens);
      continue;
    }
    rows.push_back(tokens + positions.narrow(0, used, options.prefix[i].count));
    used += options.prefix[i].count;
  }
  const at::Tensor of_patches = interpolated(positions.narrow(0, used, positions.size(0) - used));
  rows.push_back(bias_ ? of_patches + bias_.use(scope) : of_patches);
  return at::cat(rows, 0);
}

at::Tensor PatchEmbedding::interpolated(const at::Tensor& of_patches) const {
  const PatchEmbeddingOptions& options = options_;
  const int64_t rows = options.rows(), columns = options.columns();
  const int64_t stored_rows = options.position_rows, stored_columns = options.position_columns;
  if (stored_rows == 0 || (stored_rows == rows && stored_columns == columns)) return of_patches;
  const at::ScalarType type = of_patches.scalar_type();
  const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor grid =
      of_patches.to(wide).t().view({1, of_patches.size(1), stored_rows, stored_columns});
  return at::upsample_bicubic2d(grid, {rows, columns}, /*align_corners=*/false)
      .flatten(2)
      .squeeze(0)
      .t()
      .to(type);
}

}  // namespace colossal::nn
