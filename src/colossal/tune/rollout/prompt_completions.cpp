#include "colossal/tune/rollout/prompt_completions.h"

#include <algorithm>

#include "colossal/tune/rollout/rollout.h"

namespace colossal::tune {

std::vector<std::string> complete_prompts(const Job& job, models::Model& model, Engine& engine,
                                          const TrainingTask& task,
                                          const std::vector<std::vector<int32_t>>& prompts) {
  TuneConfig greedy;
  greedy.top_k = 1;
  const TrainingTask::Texts about = task.texts().value();
  const text::Tokenizer& tokenizer = about.tokenizer;
  const RolloutOptions options = rollout_options(greedy, job, tokenizer, about.taught);
  std::vector<Prompt> begun;
  for (const std::vector<int32_t>& tokens : prompts) {
    const int64_t room = job.model.facts.positions - std::ssize(tokens);
    begun.push_back(
        {.tokens = tokens, .max_new_tokens = std::min(job.config.train.sample_tokens, room)});
  }
  const std::vector<Completion> completions =
      roll_out_on_all_ranks(sampled_model(model, job.model.facts, engine), begun, options);
  const std::vector<text::SpecialToken> special = tokenizer.special_tokens();
  std::vector<std::string> texts;
  for (const Completion& completion : completions) {
    std::vector<int32_t> shown;
    std::ranges::copy_if(completion.tokens, std::back_inserter(shown), [&](int32_t token) {
      return std::ranges::count(special, token, &text::SpecialToken::token) == 0;
    });
    texts.push_back(tokenizer.decode_continuation(shown));
  }
  return texts;
}

}  // namespace colossal::tune
