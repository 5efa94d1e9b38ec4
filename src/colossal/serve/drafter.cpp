#include "colossal/serve/drafter.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/serve/sampling.h"

namespace colossal::serve {
namespace {

// New ones of a text, that are read beside those of others.
constexpr int64_t kFewTokens = 2;
constexpr int64_t kLongestRun = 4, kShortestRun = 2;

// The guess is the draw that the request would make of these logits; nothing where there is none.
std::optional<int32_t> draw(const at::Tensor& logits, const Sequence& sequence) {
  const Request& request = sequence.request;
  const at::Tensor processed = logits.to(at::kDouble).contiguous();
  std::vector<int32_t> generated(sequence.generated().begin(), sequence.generated().end());
  generated.insert(generated.end(), sequence.drafts.begin(), sequence.drafts.end());
  try {
    process_logits(processed, request.sampling, {request.prompt, generated}, request.end_tokens);
    return sample(processed, request.sampling, sequence.size() + std::ssize(sequence.drafts));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<int32_t> look_up_continuation(std::span<const int32_t> text, int64_t most) {
  const auto size = std::ssize(text);
  int64_t best_length = kShortestRun - 1, best_end = 0;
  for (int64_t end = size - 1; end >= kShortestRun && best_length < kLongestRun; --end) {
    int64_t length = 0;
    while (length < std::min(kLongestRun, end) &&
           text[end - 1 - length] == text[size - 1 - length]) {
      ++length;
    }
    if (length <= best_length) continue;
    best_length = length;
    best_end = end;
  }
  if (best_end == 0) return {};
  const auto begin = text.begin() + best_end;
  return {begin, begin + std::min(most, size - best_end)};
}

void LookupDrafter::propose(const std::vector<DraftRequest>& requests) {
  for (const auto& [sequence, most] : requests) {
    sequence->drafts = look_up_continuation(sequence->tokens, most);
  }
}

void ModelDrafter::propose(const std::vector<DraftRequest>& requests) {
  std::vector<Sequence*> going_on;
  int64_t rounds = 0;
  for (const auto& [sequence, most] : requests) {
    sequence->drafts.clear();
    rounds = std::max(rounds, most);
  }
  for (int64_t round = 0; round < rounds; ++round) {
    going_on.clear();
    for (const auto& [sequence, most] : requests) {
      if (most > round && std::ssize(sequence->drafts) == round) going_on.push_back(sequence);
    }
    if (!going_on.empty()) guess_next(going_on);
  }
}

void ModelDrafter::guess_next(const std::vector<Sequence*>& sequences) {
  const at::Tensor logits = read(sequences);
  for (size_t i = 0; i < sequences.size(); ++i) {
    const auto guess = draw(logits[static_cast<int64_t>(i)], *sequences[i]);
    if (guess) sequences[i]->drafts.push_back(*guess);
  }
}

// Texts of which much is new are read first, but for their last token.
at::Tensor ModelDrafter::read(const std::vector<Sequence*>& sequences) {
  Pass last;
  for (Sequence* const sequence : sequences) {
    const int64_t size = sequence->size() + std::ssize(sequence->drafts);
    // What was guessed wrong is read again, as it has become.
    int64_t& done = sequence->drafted;
    done = std::min(done, size - 1);
    while (size - done > kFewTokens) {
      Pass ahead;
      const int64_t end = std::min(size - 1, done + max_batch_tokens_);
      add(ahead, *sequence, {done, end}, /*alone=*/false);
      run(ahead);
      done = end;
    }
    add(last, *sequence, {done, size}, /*alone=*/true);
    done = size;
  }
  return run(last);
}

void ModelDrafter::add(Pass& pass, const Sequence& sequence, Range positions, bool alone) {
  pass.chunks.push_back({.positions = positions, .pages = sequence.pages, .alone = alone});
  for (int64_t i = positions.begin; i < positions.end; ++i) {
    pass.tokens.push_back(i < sequence.size() ? sequence.tokens[i]
                                              : sequence.drafts[i - sequence.size()]);
    pass.positions.push_back(i);
    pass.lengths.push_back(std::max(i + 1, sequence.prompt_size()));
  }
  pass.last_rows.push_back(std::ssize(pass.tokens) - 1);
}

at::Tensor ModelDrafter::run(const Pass& pass) {
  store_.begin_step(pass.chunks);
  const auto row_of = [](const std::vector<int64_t>& numbers) {
    return at::tensor(numbers, at::kLong).unsqueeze(0);
  };
  nn::StepContext context = nn::make_step_context(1, std::ssize(pass.tokens), device_);
  context.positions = row_of(pass.positions).to(device_);
  context.lengths = row_of(pass.lengths);
  context.key_values = &store_;
  const at::Tensor hidden = model_.run_blocks(
      {0, model_.num_blocks()}, model_.embed(row_of(pass.tokens).to(device_), context), context);
  return model_.head_logits(hidden, context, at::tensor(pass.last_rows, at::kLong)).cpu();
}

}  // namespace colossal::serve
