#include "colossal/serve/drafter.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "colossal/base/current_exception.h"
#include "colossal/base/error.h"
#include "colossal/ops/upload.h"
#include "colossal/serve/logits_processing.h"
#include "colossal/serve/sampling.h"

namespace colossal::serve {
namespace {

// Sequences with at most this many new tokens share one pass of the draft model.
constexpr int64_t kFewTokens = 2;
// Lengths, in tokens, of the suffix that look_up_continuation() searches for.
constexpr int64_t kLongestRun = 4, kShortestRun = 2;

// Returns the token that the request would sample from these logits; nullopt if there is none.
// constraint: advanced by the draft tokens so far; null: none. Rethrows exceptions of `constraint`.
std::optional<int32_t> draw(const at::Tensor& logits, const Sequence& sequence,
                            LogitsConstraint* constraint) {
  const Request& request = sequence.request;
  at::Tensor processed = logits.to(at::kDouble).contiguous();
  std::vector<int32_t> generated(sequence.generated().begin(), sequence.generated().end());
  generated.insert(generated.end(), sequence.drafts.begin(), sequence.drafts.end());
  if (constraint) constraint->apply(processed);
  try {
    process_logits(processed, request.sampling, sequence.text_before(generated));
    return sample(processed, request.sampling, sequence.size() + std::ssize(sequence.drafts));
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Advances the constraint by a draft token. Returns whether the text continues after that token.
bool goes_on_after(int32_t guess, const Request& request, LogitsConstraint* constraint) {
  if (std::ranges::find(request.end_tokens, guess) != request.end_tokens.end()) return false;
  if (!constraint) return true;
  constraint->accept(guess);
  return !constraint->finished();
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

std::vector<DraftFailure> LookupDrafter::propose(const std::vector<DraftRequest>& requests) {
  for (const auto& [sequence, most] : requests) {
    sequence->drafts = look_up_continuation(sequence->tokens, most);
  }
  return {};
}

std::vector<DraftFailure> NeuralDrafter::propose(const std::vector<DraftRequest>& requests) {
  struct Guessing {
    Sequence* sequence;
    int64_t most;
    std::shared_ptr<LogitsConstraint> constraint;
  };
  std::vector<DraftFailure> failures;
  // Calls run(); an exception drops the sequence's drafts and becomes a DraftFailure.
  const auto guarded = [&](Sequence& sequence, const auto& run) {
    try {
      run();
    } catch (...) {
      sequence.drafts.clear();
      failures.push_back({&sequence, message_of_current_exception()});
    }
  };
  std::vector<Guessing> going_on;
  for (const auto& [sequence, most] : requests) {
    sequence->drafts.clear();
    const auto& constraint = sequence->request.constraint;
    guarded(*sequence, [&, sequence = sequence, most = most] {
      going_on.push_back({sequence, most, constraint ? constraint->clone() : nullptr});
    });
  }
  while (!going_on.empty()) {
    std::vector<Sequence*> sequences;
    for (const Guessing& each : going_on) sequences.push_back(each.sequence);
    const at::Tensor logits = next_logits(sequences);
    std::vector<Guessing> next;
    for (size_t i = 0; i < going_on.size(); ++i) {
      const Guessing& each = going_on[i];
      Sequence& sequence = *each.sequence;
      guarded(sequence, [&] {
        LogitsConstraint* const constraint = each.constraint.get();
        const auto guess = draw(logits[static_cast<int64_t>(i)], sequence, constraint);
        if (!guess) return;
        sequence.drafts.push_back(*guess);
        const bool goes_on = goes_on_after(*guess, sequence.request, constraint);
        if (goes_on && std::ssize(sequence.drafts) < each.most) next.push_back(each);
      });
    }
    going_on = std::move(next);
  }
  return failures;
}

void NeuralDrafter::add(Pass& pass, const Sequence& sequence, int64_t begin,
                        std::span<const int32_t> tokens, bool alone) {
  const int64_t end = begin + std::ssize(tokens);
  pass.chunks.push_back({.positions = {begin, end}, .pages = sequence.pages, .alone = alone});
  for (int64_t i = begin; i < end; ++i) {
    pass.tokens.push_back(tokens[i - begin]);
    pass.positions.push_back(i);
    pass.lengths.push_back(std::max(i + 1, sequence.prompt_size()));
  }
  pass.last_rows.push_back(std::ssize(pass.tokens) - 1);
}

at::Tensor NeuralDrafter::run(const Pass& pass, nn::StepContext& context) {
  store_.begin_step(pass.chunks);
  const auto row_of = [](const std::vector<int64_t>& numbers) {
    return at::tensor(numbers, at::kLong).unsqueeze(0);
  };
  context = nn::make_step_context(1, std::ssize(pass.tokens), device_);
  context.tokens().positions = ops::upload(row_of(pass.positions), device_);
  context.tokens().lengths = row_of(pass.lengths);
  context.services.key_values = &store_;
  models::TokenInputs inputs{ops::upload(row_of(pass.tokens), device_)};
  if (!pass.states.empty()) {
    inputs.target_states = ops::upload(at::cat(pass.states).unsqueeze(0), device_);
  }
  const nn::BlockState start = model_.text_inputs().embed(inputs, context);
  const Range blocks{0, model_.num_blocks()};
  return model_.token_head().final_states(model_.run_blocks(blocks, start, context).output(),
                                          context);
}

// A shared page has the draft model's keys and values as soon as one of its sequences was drafted
// for.
int64_t ModelDrafter::num_cached_tokens(const Sequence& sequence) const {
  int64_t pages = 0;
  while (pages < std::ssize(sequence.kept) &&
         read_[sequence.pages[pages]] == sequence.kept[pages]) {
    ++pages;
  }
  return pages * page_size();
}

void ModelDrafter::remember(const Sequence& sequence) {
  for (int64_t page = 0; page < std::ssize(sequence.kept); ++page) {
    read_[sequence.pages[page]] = sequence.kept[page];
  }
}

// First computes long runs of new tokens, in passes of their own, except the last token. Then
// computes the last tokens of all sequences in one pass.
at::Tensor ModelDrafter::next_logits(const std::vector<Sequence*>& sequences) {
  nn::StepContext context;
  Pass last;
  for (Sequence* const sequence : sequences) {
    std::vector<int32_t> tokens = sequence->tokens;
    tokens.insert(tokens.end(), sequence->drafts.begin(), sequence->drafts.end());
    const std::span<const int32_t> all = tokens;
    const auto size = std::ssize(tokens);
    // The last token is always computed. It may have replaced a rejected draft token, whose keys
    // and values are then overwritten.
    int64_t& done = sequence->drafted;
    done = std::min(std::max(done, num_cached_tokens(*sequence)), size - 1);
    while (size - done > kFewTokens) {
      Pass ahead;
      const int64_t end = std::min(size - 1, done + max_batch_tokens());
      add(ahead, *sequence, done, all.subspan(done, end - done), /*alone=*/false);
      run(ahead, context);
      done = end;
    }
    add(last, *sequence, done, all.subspan(done), /*alone=*/true);
    done = size;
    remember(*sequence);
  }
  const at::Tensor states = run(last, context);
  return model()
      .token_head()
      .logits_of_states(states, context, at::tensor(last.last_rows, at::kLong))
      .cpu();
}

// Reads the states of tokens whose next token is known. This excludes the last token and rejected
// draft tokens.
void HeadDrafter::read(const std::vector<Sequence*>& sequences) {
  struct Read {
    Sequence* sequence;
    at::Tensor states;  // [tokens, hidden]
  };
  std::vector<Read> reads;
  for (Sequence* const sequence : sequences) {
    if (!sequence->states.defined()) continue;
    const int64_t begin = sequence->states_begin;
    const int64_t count = std::min(sequence->states.size(0), sequence->size() - 1 - begin);
    const at::Tensor states = std::exchange(sequence->states, {});
    if (count > 0) reads.push_back({sequence, states.narrow(0, 0, count)});
  }
  // begin_step() requires chunks of one token before longer ones.
  std::ranges::stable_partition(reads, [](const Read& read) { return read.states.size(0) == 1; });
  Pass pass;
  std::vector<Sequence*> going_on;
  for (const auto& [sequence, states] : reads) {
    add(pass, *sequence, sequence->states_begin,
        std::span(sequence->tokens).subspan(sequence->states_begin + 1, states.size(0)),
        /*alone=*/false);
    pass.states.push_back(states.to(type_));
    going_on.push_back(sequence);
  }
  if (!going_on.empty()) expect(pass, going_on);
}

void HeadDrafter::expect(const Pass& pass, const std::vector<Sequence*>& sequences) {
  nn::StepContext context;
  const at::Tensor states = run(pass, context);
  for (size_t i = 0; i < sequences.size(); ++i) {
    sequences[i]->expected_state = states[0][pass.last_rows[i]].clone();
  }
}

at::Tensor HeadDrafter::next_logits(const std::vector<Sequence*>& sequences) {
  Pass pass;
  std::vector<Sequence*> guessed;  // sequences that already have draft tokens
  std::vector<at::Tensor> expected;
  for (Sequence* const sequence : sequences) {
    if (sequence->drafts.empty()) continue;
    const int64_t position = sequence->size() + std::ssize(sequence->drafts) - 2;
    add(pass, *sequence, position, std::span(sequence->drafts).last(1), /*alone=*/true);
    pass.states.push_back(sequence->expected_state.unsqueeze(0));
    guessed.push_back(sequence);
  }
  // This overwrites the state that was predicted after the text's last token. The next read() sets
  // it again before the next proposal.
  if (!guessed.empty()) expect(pass, guessed);
  for (const Sequence* const sequence : sequences) expected.push_back(sequence->expected_state);
  const at::Tensor states = at::stack(expected).unsqueeze(0);
  const nn::StepContext context = nn::make_step_context(1, states.size(1), device());
  return model()
      .token_head()
      .logits_of_states(states, context, at::arange(states.size(1), at::kLong))
      .cpu();
}

}  // namespace colossal::serve
