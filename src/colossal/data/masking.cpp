#include "colossal/data/masking.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/base/random.h"
#include "colossal/data/text_batch.h"

namespace colossal::data {
namespace {

constexpr int64_t kIgnored = -100;
constexpr double kMasked = 0.8, kRandom = 0.1;  // shares of the chosen tokens

}  // namespace

MaskOptions mask_options(const text::Tokenizer& tokenizer, const std::string& name,
                         int64_t vocabulary) {
  MaskOptions options{.vocabulary = tokenizer.vocabulary_size()};
  const std::optional<int32_t> own = tokenizer.mask_token();
  if (!own && vocabulary <= tokenizer.vocabulary_size()) {
    throw ConfigError(
        fmt::format("data.tokenizer = \"{}\" has no mask token, which replaces the tokens that "
                    "the model predicts, and the model's vocabulary has no row for one; use a "
                    "tokenizer with \"mask_token\" in its tokenizer_config.json, or "
                    "model.vocab_size = {}",
                    name, tokenizer.vocabulary_size() + 1));
  }
  options.mask_token = own.value_or(tokenizer.vocabulary_size());
  options.never = tokens_never_masked(tokenizer);
  return options;
}

std::vector<int32_t> tokens_never_masked(const text::Tokenizer& tokenizer) {
  std::vector<int32_t> tokens{tokenizer.end_of_text()};
  for (const text::SpecialToken& special : tokenizer.special_tokens()) {
    tokens.push_back(special.token);
  }
  std::ranges::sort(tokens);
  return tokens;
}

void mask_tokens(Batch& batch, const MaskOptions& options) {
  const RandomKey choice = random_key(options.seed, 0, "masked tokens");
  const RandomKey replacement = random_key(options.seed, 0, "replaced tokens");
  auto inputs = batch.at(kTokens).accessor<int64_t, 2>();
  auto labels = batch.at(kLabels).accessor<int64_t, 2>();
  for (int64_t row = 0; row < inputs.size(0); ++row) {
    const auto sample = static_cast<uint64_t>(batch.sample_ids[row]);
    for (int64_t i = 0; i < inputs.size(1); ++i) {
      const auto position = static_cast<uint64_t>(i);
      const int64_t token = inputs[row][i];
      labels[row][i] = kIgnored;
      if (std::ranges::binary_search(options.never, token)) continue;
      if (random_uniform(choice, sample, position) >= options.probability) continue;
      labels[row][i] = token;
      const double drawn = random_uniform(replacement, sample, position);
      if (drawn < kMasked) {
        inputs[row][i] = options.mask_token;
      } else if (drawn < kMasked + kRandom) {
        const double share = (drawn - kMasked) / kRandom;
        inputs[row][i] = std::min<int64_t>(static_cast<int64_t>(share * options.vocabulary),
                                           options.vocabulary - 1);
      }
    }
  }
}

}  // namespace colossal::data
