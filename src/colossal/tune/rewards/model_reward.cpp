#include "colossal/tune/rewards/model_reward.h"
#include "colossal/text/model_folder.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/training/training_data.h"
#include "colossal/tune/methods/score_head.h"
#include "colossal/tune/rollout/gather_parts.h"
#include "colossal/tune/samples/collate.h"

namespace colossal::tune {
namespace {

Job job_of_reward(const Job& run, const std::string& folder) {
  const std::string setting = fmt::format("tune.reward = \"model:{}\"", folder);
  Job job = job_of_folder(run, folder, setting);
  if (job.model.transformer.scores != 1 || !job.model.facts.causal) {
    throw ConfigError(
        fmt::format("{}: its model {}; give a decoder that scores texts "
                    "(...ForSequenceClassification with one label), such as one trained with "
                    "colossal tune reward",
                    setting,
                    job.model.facts.scores == 0 ? "predicts tokens"
                    : !job.model.facts.causal   ? "is an encoder"
                                                : "gives texts several scores"));
  }
  return job;
}

// Returns the token that pads texts, and is ignored at their end.
int32_t padding_of(const Job& job, const text::Tokenizer& tokenizer) {
  const nlohmann::json& fields = job.model.other_fields;
  const auto given = fields.find("pad_token_id");
  const bool known = given != fields.end() && given->is_number_integer();
  return known ? given->get<int32_t>() : tokenizer.end_of_text();
}

}  // namespace

ModelReward::ModelReward(const std::string& folder, const Job& run, const ParallelContext& context)
    : folder_(folder),
      run_(run),
      context_(context),
      job_(job_of_reward(run, folder)),
      tokenizer_(open_tokenizer(job_)),
      chat_template_(text::ModelFolder(folder).chat_template()),
      padding_(padding_of(job_, *tokenizer_)),
      collector_([this](models::Model& model, const nn::BlockState& state, const data::Batch& batch,
                        const nn::StepContext& step) {
        return rewards_of_rows(model, state, batch, step, context_);
      }) {
  if (chat_template_) chat_template_->protect(tokenizer_->special_tokens());
}

void ModelReward::load() {
  model_.emplace(job_, context_, collector_.head());
}

Row ModelReward::row_of(const ScoredText& text) const {
  const SampleTexts made = text_with_completion(*text.columns, text.completion,
                                                chat_template_ ? &*chat_template_ : nullptr);
  const std::string& whole = made.wholes.front().text;
  Row row{.tokens = made.is_chat ? tokenizer_->encode_with_breaks(whole, made.wholes.front().breaks)
                                 : tokenizer_->encode_prompt(whole),
          .learned = {}};
  if (!made.is_chat) row = with_final_padding(std::move(row), tokenizer_->end_of_text());
  row = with_final_padding(std::move(row), padding_);
  row.learned.assign(row.tokens.size(), 0);
  if (std::ssize(row.tokens) - 1 <= job_.model.facts.positions) return row;
  throw Error(fmt::format("a text has {} tokens, but the model has {} positions",
                          std::ssize(row.tokens) - 1, job_.model.facts.positions));
}

std::vector<double> ModelReward::score(const std::vector<ScoredText>& texts) {
  std::vector<Row> rows;
  std::vector<size_t> places;
  std::string reason;
  for (size_t i = 0; i < texts.size(); ++i) {
    try {
      rows.push_back(row_of(texts[i]));
      places.push_back(i);
    } catch (const std::exception& error) {
      reason = error.what();
    }
  }
  if (rows.size() < texts.size()) {
    failures_ += std::ssize(texts) - std::ssize(rows);
    if (context_.rank() == 0) {
      log::warn(
          "the reward \"model:{}\" cannot read {} of {} completions, which have no reward from it: "
          "{}",
          folder_, texts.size() - rows.size(), texts.size(), reason);
    }
  }
  const std::vector<double> found = score_rows(rows);
  const auto is_finite = [](double score) { return std::isfinite(score); };
  if (const auto bad = std::ssize(found) - std::ranges::count_if(found, is_finite); bad > 0) {
    failures_ += bad;
    if (context_.rank() == 0) {
      log::warn("the reward \"model:{}\" gave {} of {} completions a score that is not finite",
                folder_, bad, texts.size());
    }
  }
  std::vector<double> scores(texts.size(), std::numeric_limits<double>::quiet_NaN());
  for (size_t i = 0; i < rows.size(); ++i) scores[places[i]] = found[i];
  return scores;
}

std::vector<double> ModelReward::score_rows(const std::vector<Row>& rows) {
  const data::BatchShape shape = batch_shape(run_, context_);
  const auto all = std::ssize(rows);
  std::vector<Range> ranges;
  std::vector<data::Batch> batches;
  for (int64_t step = 0; step < data::num_evaluation_steps(shape, all); ++step) {
    for (const Range& range : data::evaluation_micro_batches(shape, all, step)) {
      std::vector<const Row*> drawn;
      std::vector<int64_t> ids;
      for (int64_t i = range.begin; i < range.end; ++i) {
        drawn.push_back(&rows[i]);
        ids.push_back(i);
      }
      batches.push_back(collate(drawn, std::move(ids), padding_, run_.strategy.sp));
      add_reward_positions(drawn, padding_, batches.back());
      if (range.size() > 0) ranges.push_back(range);
    }
  }
  model_->run(batches);
  const std::vector<at::Tensor> found = collector_.take();
  nlohmann::json mine = nlohmann::json::array();
  const bool has_some = has_results(context_) && context_.coordinate(Axis::sp) == 0;
  for (size_t i = 0; has_some && i < found.size(); ++i) {
    const at::Tensor scores = found[i].cpu().to(at::kDouble);
    for (int64_t row = 0; row < scores.size(0); ++row) {
      mine.push_back({ranges[i].begin + row, scores[row].item<double>()});
    }
  }
  std::vector<double> scores(all);
  for (const nlohmann::json& part : gather_parts(mine, has_some, context_)) {
    for (const nlohmann::json& each : part) scores.at(each[0].get<size_t>()) = each[1];
  }
  return scores;
}

}  // namespace colossal::tune
