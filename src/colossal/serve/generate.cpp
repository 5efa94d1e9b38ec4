#include "colossal/serve/generate.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/nn/key_value_cache.h"

namespace colossal::serve {
namespace {

void validate_prompt(std::span<const int32_t> prompt, const models::ModelFacts& facts) {
  if (prompt.empty())
    throw ConfigError("--prompt is empty: generation starts from at least one token");
  if (static_cast<int64_t>(prompt.size()) >= facts.positions) {
    throw ConfigError(
        fmt::format("the prompt has {} tokens, the model {} positions: give at most {} tokens",
                    prompt.size(), facts.positions, facts.positions - 1));
  }
  for (int32_t token : prompt) {
    if (token < 0 || token >= facts.vocabulary) {
      throw ConfigError(
          fmt::format("token {} is outside the model's vocabulary of {}", token, facts.vocabulary));
    }
  }
}

// Logits [vocabulary] after `tokens`, which continue what the cache holds.
at::Tensor next_logits(models::LanguageModel& model, std::span<const int32_t> tokens, int64_t begin,
                       at::Device device, nn::KeyValueCache& cache) {
  const auto count = static_cast<int64_t>(tokens.size());
  at::Tensor input = at::empty({1, count}, at::kLong);
  std::copy(tokens.begin(), tokens.end(), input.mutable_data_ptr<int64_t>());
  nn::StepContext context = nn::make_step_context(1, count, device, begin);
  context.cache = &cache;
  return model.logits(input.to(device), context, /*last_only=*/true).view(-1).cpu();
}

}  // namespace

int64_t generate(models::LanguageModel& model, const models::ModelFacts& facts,
                 std::span<const int32_t> prompt, const GenerateOptions& options,
                 const std::function<void(int32_t)>& emit) {
  validate(options.sampling, facts.vocabulary);
  validate_prompt(prompt, facts);
  at::NoGradGuard no_grad;
  const auto start = static_cast<int64_t>(prompt.size());
  const int64_t last = std::min(start + options.max_new_tokens, facts.positions);
  nn::KeyValueCache cache(facts.layers, last);
  std::vector<int32_t> input(prompt.begin(), prompt.end());
  for (int64_t position = start; position < last; ++position) {
    const int64_t begin = position - static_cast<int64_t>(input.size());
    const at::Tensor logits =
        next_logits(model, input, begin, options.device, cache).to(at::kDouble);
    const int32_t token = sample(logits, options.sampling, position);
    if (std::ranges::find(options.end_tokens, token) != options.end_tokens.end()) {
      return position - start;
    }
    emit(token);
    input.assign(1, token);
  }
  return last - start;
}

}  // namespace colossal::serve
