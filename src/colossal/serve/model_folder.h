// What a Hugging Face folder says about the use of its model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "colossal/serve/request.h"
#include "colossal/serve/sampling.h"
#include "colossal/text/tokenizer.h"

namespace colossal::serve {

// The tokens that end a text: the "eos_token_id", a number or a list, of generation_config.json,
// else that of config.json, else the tokenizer's. Throws ConfigError where it is neither.
std::vector<int32_t> end_tokens(const std::filesystem::path& folder,
                                const text::Tokenizer& tokenizer);

// What generation_config.json says of temperature, top_k, top_p, min_p, typical_p and
// repetition_penalty; the defaults of the rest. Throws ConfigError for what is no number.
SamplingOptions default_sampling(const std::filesystem::path& folder);

// Returns the pooling of 1_Pooling/config.json of sentence-transformers, mean or last; last if
// there is no such file. Throws ConfigError for another pooling.
Pooling default_pooling(const std::filesystem::path& folder);

// The type to compute in: the "dtype" of config.json, else that of the first tensor; bf16 for fp16.
// Throws ConfigError for a type in which nothing is computed here.
at::ScalarType compute_type(const std::filesystem::path& folder);

}  // namespace colossal::serve
