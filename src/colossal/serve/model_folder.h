// Reads from a model's Hugging Face folder the defaults for inference: end tokens, sampling
// options, pooling and dtype. Used by the command-line tools. All functions throw IoError if a file
// exists and cannot be read.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "colossal/serve/request.h"
#include "colossal/serve/sampling.h"
#include "colossal/text/tokenizer.h"

namespace colossal::serve {

// Returns the tokens that end a generated text: "eos_token_id" (a number or a list) of
// generation_config.json; without it, that of config.json; without both, the tokenizer's
// end-of-text token. Throws ConfigError if "eos_token_id" is neither a token number nor a list of
// token numbers.
std::vector<int32_t> end_tokens(const std::filesystem::path& folder,
                                const text::Tokenizer& tokenizer);

// Returns sampling options with temperature, top_k, top_p, min_p, typical_p and repetition_penalty
// of generation_config.json. If do_sample is false in this file, temperature is 0. Fields that the
// file lacks (all, if there is no such file) and all other options have the defaults of
// SamplingOptions. Throws ConfigError if one of the six fields is not a number.
SamplingOptions default_sampling(const std::filesystem::path& folder);

// Returns the pooling of an embedding model, from the file 1_Pooling/config.json that
// sentence-transformers writes. If there is no such file, returns Pooling::last for a decoder and
// Pooling::mean for an encoder. causal: whether the model is a decoder. Throws ConfigError if the
// file demands a pooling other than that of the first token, of the last token, or the mean.
Pooling default_pooling(const std::filesystem::path& folder, bool causal);

// Returns the dtype to compute in: "dtype" or "torch_dtype" of config.json if it is float32,
// float64, bfloat16 or float16; else the dtype of the first weight in the folder that is not
// quantized (fp8 counts as quantized); fp32 if there is none. Returns bf16 in place of fp16.
at::ScalarType compute_type(const std::filesystem::path& folder);

}  // namespace colossal::serve
