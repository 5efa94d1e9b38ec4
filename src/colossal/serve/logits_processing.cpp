#include "colossal/serve/logits_processing.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace colossal::serve {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

void mask(std::span<double> logits, std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) logits[token] = kNever;
}

void mask_all_but(std::span<double> logits, std::span<const int32_t> allowed) {
  std::vector<std::pair<int32_t, double>> kept;
  for (const int32_t token : allowed) kept.emplace_back(token, logits[token]);
  std::ranges::fill(logits, kNever);
  for (const auto& [token, logit] : kept) logits[token] = logit;
}

// The prompt and the generated text as one sequence.
class Tokens {
 public:
  explicit Tokens(const TextSoFar& text) : text_(text) {}

  int64_t size() const { return std::ssize(text_.prompt) + std::ssize(text_.generated); }
  int32_t operator[](int64_t i) const {
    const int64_t prompt = std::ssize(text_.prompt);
    return i < prompt ? text_.prompt[i] : text_.generated[i - prompt];
  }
  // Whether the sequence ends with these tokens.
  bool end_with(std::span<const int32_t> tokens) const {
    const int64_t begin = size() - std::ssize(tokens);
    if (begin < 0) return false;
    for (int64_t i = 0; i < std::ssize(tokens); ++i) {
      if ((*this)[begin + i] != tokens[i]) return false;
    }
    return true;
  }

 private:
  const TextSoFar& text_;
};

// Whether the next token could be the last one of `sequence`.
bool may_complete(std::span<const int32_t> sequence, const Tokens& tokens) {
  return tokens.end_with(sequence.first(sequence.size() - 1));
}

// Divides positive and multiplies negative logits of each of the tokens once.
void penalize(std::span<double> logits, std::initializer_list<std::span<const int32_t>> texts,
              double penalty) {
  std::unordered_set<int32_t> penalized;
  for (const std::span<const int32_t> tokens : texts) {
    for (const int32_t token : tokens) {
      if (!penalized.insert(token).second) continue;
      logits[token] = logits[token] < 0 ? logits[token] * penalty : logits[token] / penalty;
    }
  }
}

void penalize_generated(std::span<double> logits, std::span<const int32_t> generated,
                        const SamplingOptions& options) {
  std::unordered_map<int32_t, int64_t> counts;
  for (const int32_t token : generated) ++counts[token];
  for (const auto& [token, count] : counts) {
    logits[token] -=
        options.frequency_penalty * static_cast<double>(count) + options.presence_penalty;
  }
}

// Masks each token that would complete a sequence of `size` tokens which occurs in `known`. known:
// a sequence with size() and operator[].
template <typename Known>
void mask_repeated(std::span<double> logits, const Tokens& tokens, const Known& known,
                   int64_t size) {
  const int64_t begin = tokens.size() - (size - 1);  // of what the next token would complete
  if (begin < 0) return;
  const auto occurs_at = [&](int64_t place) {
    for (int64_t i = 0; i < size - 1; ++i) {
      if (known[place + i] != tokens[begin + i]) return false;
    }
    return true;
  };
  for (int64_t place = 0; place + size <= static_cast<int64_t>(known.size()); ++place) {
    if (occurs_at(place)) logits[known[place + size - 1]] = kNever;
  }
}

void mask_bad_words(std::span<double> logits, const std::vector<std::vector<int32_t>>& words,
                    const Tokens& tokens, std::span<const int32_t> end_tokens) {
  for (const std::vector<int32_t>& word : words) {
    const bool is_end =
        word.size() == 1 && std::ranges::find(end_tokens, word.front()) != end_tokens.end();
    if (!is_end && may_complete(word, tokens)) logits[word.back()] = kNever;
  }
}

void force(std::span<double> logits, std::span<const int32_t> tokens) {
  std::ranges::fill(logits, kNever);
  for (const int32_t token : tokens) logits[token] = 0;
}

void favour_end(std::span<double> logits, std::span<const int32_t> end_tokens, int64_t late,
                double factor) {
  for (const int32_t token : end_tokens) {
    double& logit = logits[token];
    if (!std::isfinite(logit)) continue;
    logit += std::abs(logit) * (std::pow(factor, static_cast<double>(late)) - 1);
  }
}

}  // namespace

void process_logits(const at::Tensor& logits, const SamplingOptions& options,
                    const TextSoFar& text) {
  const std::span values(logits.mutable_data_ptr<double>(), static_cast<size_t>(logits.numel()));
  const Tokens tokens(text);
  const int64_t length = tokens.size(), generated = std::ssize(text.generated);
  std::vector<int32_t> forced;
  if (options.forced_bos_token && length == 1) forced = {*options.forced_bos_token};
  if (generated == text.max_new_tokens - 1 && !options.forced_eos_tokens.empty()) {
    forced = options.forced_eos_tokens;
  }
  const bool may_force =
      std::ranges::any_of(forced, [&](int32_t token) { return values[token] != kNever; });

  if (!options.allowed_tokens.empty()) mask_all_but(values, options.allowed_tokens);
  for (const auto& [token, bias] : options.logit_bias) values[token] += bias;
  for (const auto& [sequence, bias] : options.sequence_bias) {
    if (may_complete(sequence, tokens)) values[sequence.back()] += bias;
  }
  if (options.encoder_repetition_penalty != 1) {
    penalize(values, {text.source}, 1 / options.encoder_repetition_penalty);
  }
  if (options.repetition_penalty != 1) {
    penalize(values, {text.prompt, text.generated}, options.repetition_penalty);
  }
  if (options.presence_penalty != 0 || options.frequency_penalty != 0) {
    penalize_generated(values, text.generated, options);
  }
  if (options.no_repeat_ngram_size > 0) {
    mask_repeated(values, tokens, tokens, options.no_repeat_ngram_size);
  }
  if (options.encoder_no_repeat_ngram_size > 0) {
    mask_repeated(values, tokens, text.source, options.encoder_no_repeat_ngram_size);
  }
  mask_bad_words(values, options.bad_words, tokens, text.end_tokens);
  if (generated < options.min_tokens || length < options.min_length) {
    mask(values, text.end_tokens);
  }
  if (may_force) force(values, forced);
  if (const auto& decay = options.exponential_decay_length_penalty;
      decay && generated > decay->first) {
    favour_end(values, text.end_tokens, generated - decay->first, decay->second);
  }
  mask(values, options.suppress_tokens);
  // A forced first token comes before the text.
  const bool is_begun_by_force = options.forced_bos_token && text.prompt.size() == 1;
  if (generated == (is_begun_by_force ? 1 : 0)) mask(values, options.begin_suppress_tokens);
}

}  // namespace colossal::serve
