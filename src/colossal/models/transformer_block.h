// Makes the blocks of a Transformer: attention and an MLP, or experts, on the residual stream, in
// the arrangement that TransformerConfig describes.
#pragma once

#include <memory>

#include "colossal/models/transformer_config.h"
#include "colossal/nn/blocks.h"
#include "colossal/nn/builder.h"

namespace colossal::models {

// Makes block number `layer`, from 0, of a tower before which the model has `before` blocks. The
// names of its layers begin with "blocks.N.", N = before + layer. The state that the block gets has
// one stream. Its conditions are, in this order: the relative bias, if the configuration has one
// (relative_buckets); and the encoder's output, if the block attends to it and StepServices has no
// memories.
std::unique_ptr<nn::Block> make_transformer_block(nn::Builder& build,
                                                  const TransformerConfig& config, int64_t layer,
                                                  int64_t before = 0);

// Makes a norm over config.hidden features, named `name`. config.norm is its kind: RMS norm or
// layer norm.
std::unique_ptr<nn::Norm> make_norm(nn::Builder& build, const std::string& name,
                                    const TransformerConfig& config);

}  // namespace colossal::models
