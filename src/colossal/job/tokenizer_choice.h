// Finds the tokenizer of a run.
#pragma once

#include <string>

#include "colossal/job/job.h"
#include "colossal/text/tokenizer/tokenizer.h"

namespace colossal {

// Returns the tokenizer of a run, in a form that text::make_tokenizer() accepts: data.tokenizer if
// the key is set and not "model"; otherwise the folder model.path if it has a tokenizer.json;
// otherwise "bytes". Throws ConfigError if the key is "model" and the model has no tokenizer.json,
// or if the key is unset and model.path has only tokenizer files that are not supported.
std::string resolve_tokenizer(const RunConfig& config);

// Returns a line for the log: the tokenizer's name, number of tokens, and the token that ends a
// text.
std::string describe_tokenizer(const Job& job, const text::Tokenizer& tokenizer);

}  // namespace colossal
