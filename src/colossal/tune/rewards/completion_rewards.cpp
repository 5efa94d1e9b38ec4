#include "colossal/tune/rewards/completion_rewards.h"

#include <ATen/ops/tensor.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/serve/step_messages.h"
#include "colossal/tune/rollout/gather_parts.h"

namespace colossal::tune {
namespace {

RewardOptions reward_options(const TuneConfig& config) {
  return {.max_completion_length = config.max_completion_length,
          .overlong_tokens = config.overlong_tokens,
          .timeout = std::chrono::duration<double>(config.reward_timeout).count()};
}

bool has_conversations(const std::vector<Sample>& prompts) {
  return std::ranges::any_of(
      prompts, [](const Sample& prompt) { return prompt.columns.at("prompt").is_array(); });
}

}  // namespace

CompletionRewards::CompletionRewards(const Job& job, const ParallelContext& context,
                                     const TuneConfig& config, const text::Tokenizer& tokenizer,
                                     const std::vector<Sample>& prompts, SampleAt sample_at)
    : context_(context),
      tokenizer_(tokenizer),
      sample_at_(std::move(sample_at)),
      rewards_(config.reward),
      functions_(config.reward, config.reward_weights, reward_options(config)) {
  for (size_t i = 0; i < config.reward.size(); ++i) {
    const auto folder = reward_model_folder(config.reward[i]);
    if (!folder) continue;
    const auto [model, is_new] =
        models_.emplace(i, std::make_unique<ModelReward>(*folder, job, context));
    if (!model->second->reads_messages() && has_conversations(prompts)) {
      throw ConfigError(fmt::format(
          "tune.reward = \"model:{}\": data.train has conversations, but the folder has no chat "
          "template; add a chat_template.jinja to it, or use prompts that are texts",
          *folder));
    }
  }
}

void CompletionRewards::load() {
  for (auto& [place, model] : models_) model->load();
}

std::vector<ScoredText> CompletionRewards::texts_of(
    const std::vector<ScoredCompletion*>& completions) const {
  std::vector<ScoredText> texts;
  for (const ScoredCompletion* each : completions) {
    std::vector<int32_t> tokens = each->completion.tokens;
    if (each->completion.ended) tokens.pop_back();
    texts.push_back({.columns = &sample_at_(each->position).columns,
                     .completion = tokenizer_.decode_continuation(tokens),
                     .tokens = std::ssize(each->completion.tokens)});
  }
  return texts;
}

void CompletionRewards::ask(const std::vector<ScoredCompletion*>& completions) {
  COLOSSAL_CHECK(asked_.numbers.empty(), "{} rewards that were not collected",
                 asked_.numbers.size());
  std::vector<ScoredText> texts = texts_of(completions);
  for (const ScoredCompletion* each : completions) asked_.numbers.push_back(each->number);
  const Range here = share_of(std::ssize(texts), context_.coordinate({"dp", "sp"}),
                              static_cast<int>(context_.data_group().size()));
  if (serve::leads(context_)) {
    asked_.of_functions = std::async(
        std::launch::async,
        [this, mine = std::vector(texts.begin() + here.begin, texts.begin() + here.end)] {
          nlohmann::json found;
          found["rewards"] = functions_.score(mine);
          found["failures"] = functions_.failures();
          return found;
        });
  }
  for (auto& [place, model] : models_) asked_.of_models[place] = model->score(texts);
}

void CompletionRewards::collect(BegunCompletions& completions) {
  if (asked_.numbers.empty()) return;
  Asked asked = std::exchange(asked_, {});
  const bool asks = serve::leads(context_);
  const nlohmann::json mine = asks ? asked.of_functions.get() : nlohmann::json();
  failures_ = 0;
  // Parts come in the order of ranks, which is that of the ranks' shares in ask().
  auto next = asked.numbers.begin();
  for (const nlohmann::json& part : gather_parts(mine, asks, context_)) {
    failures_ += part.at("failures").get<int64_t>();
    for (const nlohmann::json& rewards : part.at("rewards")) {
      completions.with_number(*next++).rewards = rewards.get<std::vector<double>>();
    }
  }
  for (const auto& [place, scores] : asked.of_models) {
    failures_ += models_.at(place)->failures();
    for (size_t i = 0; i < scores.size(); ++i) {
      completions.with_number(asked.numbers[i]).rewards[place] = scores[i];
    }
  }
}

void CompletionRewards::require_some(const std::vector<ScoredCompletion>& completions) const {
  const bool has_some = std::ranges::any_of(completions, [&](const ScoredCompletion& each) {
    return !std::isnan(functions_.total(each.rewards));
  });
  if (has_some) return;
  throw Error(fmt::format(
      "tune.reward = [\"{}\"]: none of the first {} completions has a reward, so nothing can be "
      "learned; {}",
      fmt::join(rewards_, "\", \""), completions.size(),
      failures_ > 0 ? "the warnings above say what failed"
                    : "the rewards answered null, or the lines of data.train lack the field that "
                      "they need (accuracy: \"solution\" or \"answer\")"));
}

at::Tensor CompletionRewards::totals(const std::vector<ScoredCompletion>& completions) const {
  std::vector<double> totals;
  for (const ScoredCompletion& each : completions) {
    totals.push_back(functions_.total(each.rewards));
  }
  return at::tensor(totals, at::kDouble);
}

}  // namespace colossal::tune
