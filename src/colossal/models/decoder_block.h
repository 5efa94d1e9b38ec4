// A decoder block: attention and an MLP (or experts) on the residual stream.
#pragma once

#include <memory>

#include "colossal/models/decoder_config.h"
#include "colossal/nn/blocks.h"
#include "colossal/nn/builder.h"

namespace colossal::models {

// Makes block number `layer`, with all its layers in the scope "blocks.{layer}".
std::unique_ptr<nn::Block> make_decoder_block(nn::Builder& build, const DecoderConfig& config,
                                              int64_t layer);

std::unique_ptr<nn::Norm> make_norm(nn::Builder& build, const std::string& name,
                                    const DecoderConfig& config);

}  // namespace colossal::models
