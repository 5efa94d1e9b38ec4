#include "colossal/tune/methods/online_task.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include "colossal/base/log.h"
#include "colossal/data/text_batch.h"
#include "colossal/engine/model_view.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/ops/loss/linear_cross_entropy.h"
#include "colossal/tune/rewards/rewards.h"
#include "colossal/tune/rollout/completion_scores.h"
#include "colossal/tune/rollout/gather_parts.h"
#include "colossal/tune/rollout/sampling_beside.h"
#include "colossal/tune/samples/pairs.h"

namespace colossal::tune {
namespace {

// Fields of a batch.
constexpr const char* kAdvantages = "advantages";              // [rows]
constexpr const char* kSampler = "sampler_log_probabilities";  // [rows, tokens], as the next four
constexpr const char* kOld = "old_log_probabilities";
constexpr const char* kReference = "reference_log_probabilities";
constexpr const char* kOldValues = "old_values";
constexpr const char* kReturns = "returns";
constexpr const char* kMeanLearned = "mean_learned";

constexpr const char* kDifference = "sampling/sampling_logp_difference/mean";
constexpr const char* kLargestDifference = "sampling/sampling_logp_difference/max";
constexpr const char* kAlike = "frac_reward_zero_std";
constexpr const char* kFailures = "rewards/failures";
constexpr const char* kImportance = "sampling/importance_sampling_ratio/mean";
constexpr const char* kLargestImportance = "sampling/importance_sampling_ratio/max";

// Writes one value per token of a completion to the positions of its labels. rows: [rows, tokens].
void fill(const at::Tensor& rows, int64_t row, int64_t prompt_tokens,
          const std::vector<double>& values) {
  auto accessor = rows.accessor<double, 2>();
  for (int64_t i = 0; i < std::ssize(values); ++i) accessor[row][prompt_tokens - 1 + i] = values[i];
}

std::vector<double> numbers_of(const at::Tensor& row, int64_t prompt_tokens, int64_t count) {
  const at::Tensor part =
      row.narrow(0, prompt_tokens - 1, count).cpu().to(at::kDouble).contiguous();
  return {part.const_data_ptr<double>(), part.const_data_ptr<double>() + count};
}

// Returns groups for sampling during updates; null if sampling and updates take turns. Collective.
std::unique_ptr<const ParallelContext> groups_beside_updates(const Job& job,
                                                             const ParallelContext& context,
                                                             const Tuning& tuning) {
  const TuneConfig& config = tuning.config;
  if (config.max_staleness == 0 || !config.overlap_sampling) return nullptr;
  if (!samples_during_updates(tuning, job, context.device())) {
    log::info("sampling does not overlap with updates, which changes only the speed: {}",
              reason_not_to_overlap(job, context.device()));
    return nullptr;
  }
  return std::make_unique<const ParallelContext>(context.world(), context.strategy(),
                                                 context.device());
}

}  // namespace

OnlineTask::OnlineTask(const Job& job, const ParallelContext& context, const Tuning& tuning,
                       const std::function<void()>& reading)
    : SampleTask(job, context, tuning, SampleKind::prompt, reading),
      beside_(groups_beside_updates(job, context, tuning)),
      rewards_(job, beside_ ? *beside_ : context, config(), tokenizer(), samples(),
               [this](int64_t position) -> const Sample& { return sample_at(position); }),
      rollout_(rollout_options(config(), job, tokenizer(), taught())),
      begun_({.max_staleness = config().max_staleness,
              .updates = config().updates_per_generation(),
              .max_length = config().max_completion_length,
              .waits_for_rewards = std::ranges::any_of(config().reward, is_external)}) {}

std::vector<std::string> OnlineTask::metrics() const {
  std::vector<std::string> names{kDifference, kLargestDifference};
  if (config().correction() != ImportanceCorrection::none) {
    names.insert(names.end(), {kImportance, kLargestImportance});
  }
  for (const std::string& name : method_metrics()) names.push_back(name);
  return names;
}

// The loader yields no batches: complete() makes them when a step begins.
data::BatchLoader OnlineTask::training_loader(int64_t steps_done) const {
  return loader_of([](int64_t) { return std::vector<data::Batch>(); }, steps_done);
}

nlohmann::json OnlineTask::state() const {
  nlohmann::json state = SampleTask::state();
  nlohmann::json& rollout = state["rollout"];
  rollout = {{"next_position", next_position_},
             {"next_completion", next_completion_},
             {"settings", settings_of_completions()},
             {"generations", generations_},
             {"begun", begun_.state()},
             {"rewards", config().reward},
             {"updates", updates_}};
  if (generation_ && updates_ < config().updates_per_generation()) {
    rollout["generation"] = to_json(*generation_);
  }
  return state;
}

// Returns the settings on which sampled completions depend. They must not change until all of these
// have been used for training.
nlohmann::json OnlineTask::settings_of_completions() const {
  return {{"tune.num_generations", config().num_generations},
          {"tune.max_staleness", config().max_staleness},
          {"tune.max_completion_length", config().max_completion_length},
          {"tune.steps_per_generation", config().steps_per_generation},
          {"tune.num_iterations", config().num_iterations},
          {"train.global_batch", shape().global_batch}};
}

void OnlineTask::require_same(const nlohmann::json& state) const {
  const nlohmann::json settings = settings_of_completions();
  for (const auto& [key, here] : settings.items()) {
    const nlohmann::json there = state.at("rollout").at("settings").value(key, here);
    if (there == here) continue;
    throw ConfigError(
        fmt::format("{} = {}: the checkpoint contains completions that were started with {} and "
                    "are still to be trained on; continue with {}",
                    key, here.dump(), there.dump(), there.dump()));
  }
  if (state.at("contents") != SampleTask::state().at("contents")) {
    throw ConfigError(
        "data.train: its lines have changed, but the checkpoint contains completions of the old "
        "lines that are still to be trained on; continue with the old lines");
  }
}

void OnlineTask::restore(const nlohmann::json& state) {
  const nlohmann::json& rollout = state.at("rollout");
  if (rollout.contains("generation") || !rollout.at("begun").empty()) require_same(state);
  next_position_ = rollout.at("next_position");
  next_completion_ = rollout.at("next_completion");
  generations_ = rollout.at("generations");
  begun_.restore(rollout.at("begun"));
  if (rollout.value("rewards", nlohmann::json()) != config().reward) begun_.forget_rewards();
  updates_ = rollout.at("updates");
  if (rollout.contains("generation")) {
    generation_ = generation_from_json(rollout.at("generation"));
  }
}

void OnlineTask::begin(models::Model& model, Engine&) {
  model_ = &model;
  scorer_.emplace(job(), context(), model, config().temperature, config().beta != 0);
  rewards_.load();
  if (beside_) sampler_.emplace(at::get_num_threads());
}

int64_t OnlineTask::completions_per_generation() const {
  return shape().global_batch * config().steps_per_generation;
}

bool OnlineTask::is_trained_on(const ScoredCompletion& completion) const {
  return completion.completion.ended || !config().mask_truncated_completions;
}

TrainingTask::ConcurrentWork OnlineTask::begin_step(Engine& engine) {
  if (!generation_ || updates_ >= config().updates_per_generation()) take_generation(engine);
  if (config().max_staleness == 0) return {};
  const int64_t count = completions_per_generation();
  begin_until(config().max_staleness * count);
  // During the updates on a generation, the weights count as not trained on it yet.
  const Sampling sampling =
      sampling_of(begun_.to_continue_during(updates_, count), generations_ - 1);
  if (!beside_) {
    continue_sampling(sampling, sampled_model(*model_, job().model.facts, engine));
    return {};
  }
  ConcurrentWork work{.name = "sampling"};
  engine.chunks().synchronize();
  work.seconds = sampler_->start(
      [this, sampling, view = std::make_shared<ModelView>(job(), *beside_, engine.chunks()),
       type = engine.config().precision.compute, counting = memory::CountingContext()] {
        const memory::MemoryScope counted(counting);
        continue_sampling(sampling, {.model = view->model(),
                                     .facts = job().model.facts,
                                     .context = *beside_,
                                     .type = type});
      });
  return work;
}

std::map<std::string, double> OnlineTask::complete(std::vector<data::Batch>& batches,
                                                   Engine& engine) {
  if (updates_ == 0) score(*generation_, engine);
  for (const Range& rows : rows_of_step(updates_ % config().steps_per_generation)) {
    batches.push_back(make_batch(*generation_, rows));
  }
  ++updates_;
  return generation_->metrics;
}

void OnlineTask::take_generation(Engine& engine) {
  Generation generation{.completions = sample_usable(engine)};
  if (!std::exchange(has_checked_rewards_, true)) rewards_.require_some(generation.completions);
  double learned = 0;
  for (const ScoredCompletion& each : generation.completions) {
    if (is_trained_on(each)) learned += static_cast<double>(each.completion.tokens.size());
  }
  generation.mean_learned = learned / static_cast<double>(generation.completions.size());
  generation_ = std::move(generation);
  failures_ = rewards_.failures();
  ++generations_;
  updates_ = 0;
}

void OnlineTask::score(Generation& generation, Engine& engine) {
  score_tokens(generation, engine);
  find_advantages(generation);
  if (config().log_completions) log_completions(generation, engine.steps_done() + 1);
}

std::vector<ScoredCompletion> OnlineTask::sample_usable(Engine& engine) {
  const int64_t wanted = completions_per_generation();
  if (!config().dynamic_sampling) return sample(wanted, engine);
  const int64_t group = config().num_generations;
  // Dynamic sampling (DAPO): samples other prompts in place of groups whose rewards are all equal.
  std::vector<ScoredCompletion> usable, alike;
  for (int64_t round = 0; round < config().max_sampling_rounds; ++round) {
    const std::vector<ScoredCompletion> found = sample(wanted - std::ssize(usable), engine);
    const at::Tensor deviations =
        sample_deviation(rewards_.totals(found).view({-1, group})).flatten();
    for (int64_t i = 0; i < deviations.numel(); ++i) {
      auto& kind = deviations[i].item<double>() > 0 ? usable : alike;
      kind.insert(kind.end(), found.begin() + i * group, found.begin() + (i + 1) * group);
    }
    if (std::ssize(usable) == wanted) return usable;
  }
  const int64_t missing = wanted - std::ssize(usable);
  log::warn(
      "after {} rounds of sampling, {} of {} completions belong to groups whose rewards are all "
      "equal",
      config().max_sampling_rounds, missing, wanted);
  usable.insert(usable.end(), alike.begin(), alike.begin() + missing);
  return usable;
}

void OnlineTask::begin_until(int64_t count) {
  const int64_t group = config().num_generations;
  for (int64_t more = begun_.missing(count); more > 0; more -= group, ++next_position_) {
    for (int64_t i = 0; i < group; ++i) {
      begun_.begin({.position = next_position_, .number = next_completion_++});
    }
  }
}

OnlineTask::Sampling OnlineTask::sampling_of(std::vector<BegunCompletions::Continuation> continued,
                                             int64_t version) const {
  Sampling sampling{.continued = std::move(continued), .version = version};
  const auto seed = static_cast<uint64_t>(job().config.train.seed);
  for (const auto& [completion, max_new_tokens] : sampling.continued) {
    std::vector<int32_t> tokens = sample_at(completion->position).rows.front().tokens;
    const std::vector<int32_t>& so_far = completion->completion.tokens;
    tokens.insert(tokens.end(), so_far.begin(), so_far.end());
    sampling.prompts.push_back({.tokens = std::move(tokens),
                                .seed = seed_of_completion(seed, completion->number),
                                .max_new_tokens = max_new_tokens,
                                .begun = std::ssize(so_far)});
  }
  return sampling;
}

void OnlineTask::continue_sampling(const Sampling& sampling, const SampledModel& from) {
  if (!sampling.prompts.empty()) {
    const std::vector<Completion> sampled = roll_out_on_all_ranks(from, sampling.prompts, rollout_);
    for (size_t i = 0; i < sampled.size(); ++i) {
      BegunCompletions::append(*sampling.continued[i].completion, sampled[i], sampling.version);
    }
  }
  rewards_.collect(begun_);
  if (const auto complete = begun_.unrewarded(); !complete.empty()) rewards_.ask(complete);
}

std::vector<ScoredCompletion> OnlineTask::sample(int64_t count, Engine& engine) {
  begin_until(count);
  // Otherwise, does not wait for rewards of later completions.
  if (!begun_.are_rewarded(count)) {
    continue_sampling(sampling_of(begun_.unfinished(count), generations_),
                      sampled_model(*model_, job().model.facts, engine));
    rewards_.collect(begun_);
  }
  return begun_.take(count);
}

void OnlineTask::score_tokens(Generation& generation, Engine& engine) {
  const bool with_reference = config().beta != 0;
  const bool has_values = job().model.transformer.value_head;
  if (!with_reference && !has_values && config().updates_per_generation() == 1) return;
  std::vector<Range> ranges;
  for (int64_t part = 0; part < config().steps_per_generation; ++part) {
    for (const Range& rows : rows_of_step(part)) ranges.push_back(rows);
  }
  std::vector<data::Batch> batches;
  for (const Range& rows : ranges) batches.push_back(make_batch(generation, rows));
  const std::vector<TokenScores> policy = scorer_->of_policy(batches, engine);
  std::vector<at::Tensor> reference;
  if (with_reference) reference = scorer_->of_reference(batches, engine);
  // True for one of the ranks that have the same scores.
  const bool has_scores = has_results(context()) && context().coordinate(Axis::sp) == 0;
  nlohmann::json mine = nlohmann::json::array();
  for (size_t i = 0; has_scores && i < ranges.size(); ++i) {
    for (int64_t row = ranges[i].begin; row < ranges[i].end; ++row) {
      const ScoredCompletion& each = generation.completions[row];
      const int64_t prompt = std::ssize(sample_at(each.position).rows.front().tokens);
      const auto of = [&](const at::Tensor& scores) {
        return scores.defined() ? numbers_of(scores[row - ranges[i].begin], prompt,
                                             std::ssize(each.completion.tokens))
                                : std::vector<double>();
      };
      mine.push_back({row, of(policy[i].log_probabilities),
                      of(with_reference ? reference[i] : at::Tensor()), of(policy[i].values)});
    }
  }
  for (const nlohmann::json& part : gather_parts(mine, has_scores, context())) {
    for (const nlohmann::json& each : part) {
      ScoredCompletion& completion = generation.completions.at(each[0].get<size_t>());
      completion.old = each[1].get<std::vector<double>>();
      completion.reference = each[2].get<std::vector<double>>();
      completion.values = each[3].get<std::vector<double>>();
    }
  }
}

void OnlineTask::find_advantages(Generation& generation) const {
  const at::Tensor rewards = rewards_.totals(generation.completions);
  generation.metrics = measure(generation.completions, rewards);
  find_advantages(generation.completions, rewards, generation.metrics);
}

void OnlineTask::set_advantages(const Advantages& found, std::vector<ScoredCompletion>& completions,
                                std::map<std::string, double>& told) {
  for (int64_t i = 0; i < std::ssize(completions); ++i) {
    completions[i].advantage = found.advantages[i].item<double>();
  }
  told[kAlike] = found.fraction_with_equal_rewards;
}

LossSum::Metric OnlineTask::mean_of_tokens(const at::Tensor& numbers, const Scores& scores) {
  return {.sum = numbers.detach().sum(at::kDouble), .count = scores.policy.mask.sum()};
}

std::map<std::string, double> OnlineTask::measure(const std::vector<ScoredCompletion>& completions,
                                                  const at::Tensor& rewards) const {
  std::map<std::string, double> found = length_metrics(completions);
  found.merge(staleness_metrics(completions));
  const auto add = [&](const std::string& mean, const std::string& deviation,
                       const at::Tensor& values) {
    const double average = values.nanmean().item<double>();
    const double spread = sample_deviation(values).item<double>();
    if (std::isfinite(average)) found[mean] = average;
    if (std::isfinite(spread)) found[deviation] = spread;
  };
  add("reward", "reward_std", rewards);
  found[kFailures] = static_cast<double>(failures_);
  if (!completions.front().reference.empty()) {
    double left = 0, tokens = 0;
    for (const ScoredCompletion& each : completions) {
      left += each.kl();
      tokens += static_cast<double>(each.completion.tokens.size());
    }
    found["kl"] = left / tokens;
  }
  for (size_t i = 0; i < rewards_.metric_names().size(); ++i) {
    std::vector<double> values;
    for (const ScoredCompletion& each : completions) values.push_back(each.rewards[i]);
    const std::string name = "rewards/" + rewards_.metric_names()[i];
    add(name + "/mean", name + "/std", at::tensor(values, at::kDouble));
  }
  return found;
}

std::map<std::string, double> OnlineTask::staleness_metrics(
    const std::vector<ScoredCompletion>& completions) const {
  const int64_t most = config().max_staleness;
  if (most == 0) return {};
  std::vector<double> tokens(most + 1, 0);
  double sum = 0, all = 0;
  for (const ScoredCompletion& each : completions) {
    for (const int64_t version : each.versions) {
      const int64_t staleness = generations_ - 1 - version;
      COLOSSAL_CHECK(staleness >= 0 && staleness <= most, "a token of staleness {}", staleness);
      ++tokens[staleness];
      sum += static_cast<double>(staleness);
      ++all;
    }
  }
  all = std::max(1.0, all);
  std::map<std::string, double> found{{"staleness/mean", sum / all}};
  for (int64_t i = 0; i <= most; ++i) found[fmt::format("staleness/{}", i)] = tokens[i] / all;
  return found;
}

std::vector<Range> OnlineTask::rows_of_step(int64_t part) const {
  return data::training_micro_batches(shape(), part);
}

data::Batch OnlineTask::make_batch(const Generation& generation, const Range& range) const {
  std::vector<Row> rows;
  std::vector<const Row*> pointers;
  std::vector<int64_t> ids;
  for (int64_t i = range.begin; i < range.end; ++i) {
    const ScoredCompletion& each = generation.completions[i];
    const std::vector<int32_t>& made = each.completion.tokens;
    Row row = sample_at(each.position).rows.front();
    row.tokens.insert(row.tokens.end(), made.begin(), made.end());
    row.learned.resize(row.tokens.size(), is_trained_on(each) ? 1 : 0);
    rows.push_back(std::move(row));
    ids.push_back(each.number);
  }
  for (const Row& row : rows) pointers.push_back(&row);
  data::Batch batch = collate_rows(pointers, std::move(ids));
  const auto of_tokens = [&](const char* field, const auto& values) {
    const at::Tensor tokens = at::zeros(batch.at(data::kLabels).sizes(), at::kDouble);
    for (int64_t i = 0; i < std::ssize(rows); ++i) {
      fill(tokens, i, rows[i].prompt_tokens, values(generation.completions[range.begin + i]));
    }
    batch.set(field, tokens, 1);
  };
  of_tokens(kSampler, [](const ScoredCompletion& c) { return c.completion.log_probabilities; });
  const ScoredCompletion& first = generation.completions.front();
  if (!first.old.empty()) of_tokens(kOld, [](const ScoredCompletion& c) { return c.old; });
  if (!first.reference.empty()) {
    of_tokens(kReference, [](const ScoredCompletion& c) { return c.reference; });
  }
  if (!first.returns.empty()) {
    of_tokens(kAdvantages, [](const ScoredCompletion& c) { return c.token_advantages; });
    of_tokens(kOldValues, [](const ScoredCompletion& c) { return c.values; });
    of_tokens(kReturns, [](const ScoredCompletion& c) { return c.returns; });
  } else {
    const at::Tensor advantages = at::zeros({std::ssize(rows)}, at::kDouble);
    for (int64_t i = 0; i < std::ssize(rows); ++i) {
      advantages[i] = generation.completions[range.begin + i].advantage;
    }
    batch.set(kAdvantages, advantages);
  }
  batch.set(kMeanLearned, at::full({1}, generation.mean_learned, at::kDouble));
  return batch;
}

HeadLoss OnlineTask::loss() const {
  return [this](models::Model& model, const nn::BlockState& state, const data::Batch& batch,
                const nn::StepContext& step) {
    const at::Tensor found =
        token_log_probabilities(model, state, batch, step, config().temperature);
    const auto field = [&](const char* name) {
      const at::Tensor values = batch.find(name);
      return values.defined() ? values.to(found.scalar_type()) : values;
    };
    const at::Tensor mask = batch.at(data::kLabels).ne(ops::kIgnoredLabel).to(found.scalar_type());
    const at::Tensor old = batch.has(kOld) ? field(kOld) : found.detach();
    Scores scores{.policy = {.log_probability = found,
                             .old = old,
                             .reference = field(kReference),
                             .mask = mask,
                             .advantages = field(kAdvantages)},
                  .lengths = sum_of_rows(mask, context()),
                  .old_values = field(kOldValues),
                  .returns = field(kReturns),
                  .mean_length = batch.at(kMeanLearned).item<double>()};
    const ImportanceCorrection correction = config().correction();
    if (correction != ImportanceCorrection::none) {
      const at::Tensor ratios = (old - field(kSampler)) * mask;
      const bool of_rows = is_of_sequences(correction);
      scores.policy.importance = importance_weights(
          of_rows ? sum_of_rows(ratios, context()).unsqueeze(1) : ratios, correction,
          {config().importance_sampling_clip_min, config().importance_sampling_clip_max});
    }
    if (scores.returns.defined()) {
      scores.values = model.value_head().values(state.output(), step).to(found.scalar_type());
    }
    LossSum sum = loss_of(scores);
    sum.copies = context().strategy().sp;
    if (const at::Tensor& weights = scores.policy.importance; weights.defined()) {
      const bool of_rows = is_of_sequences(correction);
      sum.metrics[kImportance] =
          of_rows ? metric_of(weights.squeeze(1)) : mean_of_tokens(weights * mask, scores);
      sum.metrics[kLargestImportance] = {(of_rows ? weights : weights * mask).max(), 1};
    }
    const at::Tensor differences = (old - field(kSampler)).abs() * mask;
    sum.metrics[kDifference] = mean_of_tokens(differences, scores);
    sum.metrics[kLargestDifference] = {.sum = differences.detach().max(), .count = 1};
    return sum;
  };
}

void OnlineTask::log_completions(const Generation& generation, int64_t step) const {
  if (context().rank() != 0 || job().config.log.directory.empty()) return;
  std::string lines;  // written in one call, so that a killed run leaves no incomplete line
  for (const ScoredCompletion& each : generation.completions) {
    nlohmann::json line = to_json(each);
    for (const char* detail : {"tokens", "log_probabilities", "old", "reference", "values",
                               "returns", "token_advantages", "versions"}) {
      line.erase(detail);
    }
    line["step"] = step;
    line["line"] = sample_at(each.position).columns;
    line["completion"] = tokenizer().decode_continuation(each.completion.tokens);
    lines += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  std::ofstream(std::filesystem::path(job().config.log.directory) / "completions.jsonl",
                std::ios::app)
      << lines;
}

}  // namespace colossal::tune
