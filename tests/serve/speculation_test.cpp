// Speculative decoding: texts are, token for token, those without drafts.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include "colossal/serve/drafter.h"
#include "tests/serve/random_model.h"
#include "tests/support/whole_pass.h"

namespace colossal::serve {
namespace {

using Kind = Speculation::Kind;

// Allows tokens that are near to the token before.
class OnlyNeighbours : public LogitsConstraint {
 public:
  void apply(at::Tensor& logits) override {
    for (int64_t token = 0; token < logits.numel(); ++token) {
      if (last_ >= 0 && std::abs(token - last_) > 6) logits[token] = -INFINITY;
    }
  }
  void accept(int32_t token) override { last_ = token; }
  std::shared_ptr<LogitsConstraint> clone() const override {
    return std::make_shared<OnlyNeighbours>(*this);
  }

 private:
  int64_t last_ = -1;
};

models::ModelSpecification small_draft() {
  return models::resolve_model({.preset = "gpt2-tiny",
                                .overrides = {{"n_layer", 1},
                                              {"n_embd", 12},
                                              {"n_head", 2},
                                              {"vocab_size", 50},
                                              {"n_positions", 128}}});
}

// Returns the specification of a tiny model, or of a draft head for it.
models::ModelSpecification tiny_of(int64_t vocabulary, bool draft_head) {
  return models::resolve_model({.preset = "gpt2-tiny",
                                .overrides = {{"n_layer", 2},
                                              {"n_embd", 24},
                                              {"n_head", 3},
                                              {"vocab_size", vocabulary},
                                              {"n_positions", 128}},
                                .draft_head = draft_head});
}

// Returns how many single drafts are proposed for a text, and accepted. The drafts are the head's
// most likely tokens, computed over all states of the model at once.
std::pair<int64_t, int64_t> guesses_of(const RandomModel& model, const RandomModel& head,
                                       const Tokens& text, int64_t prompt) {
  const at::NoGradGuard no_grad;
  const auto size = std::ssize(text) - 1;
  const at::Tensor all = at::tensor(text, at::kLong).view({1, size + 1});
  const nn::StepContext step = nn::make_step_context(1, size, at::kCPU);
  const nn::BlockState start = model.model->text_inputs().embed({all.narrow(1, 0, size)}, step);
  const at::Tensor states = model.model->token_head().final_states(
      model.model->run_blocks({0, 2}, start, step).output(), step);
  const at::Tensor guesses =
      logits_of(*head.model,
                models::TokenInputs{.tokens = all.narrow(1, 1, size), .target_states = states},
                step)
          .argmax(-1)
          .flatten();
  int64_t made = 0, right = 0;
  DraftLength length;
  // The first token follows from the prompt; the last token needs no draft.
  for (int64_t next = prompt + 1; next < size; ++next) {
    if (length.next(1) < 1) continue;
    const bool is_right = guesses[next - 2].item<int64_t>() == text[next];
    length.learn(1, is_right ? 1 : 0);
    ++made;
    right += is_right ? 1 : 0;
    if (is_right) ++next;  // the accepted draft and the token after it come in one step
  }
  return {made, right};
}

class SpeculationTest : public testing::Test {
 protected:
  SpeculationTest() { at::set_num_threads(1); }

  Speculation by_model(const RandomModel& draft, int64_t drafts) const {
    return {.kind = Kind::model,
            .drafts = drafts,
            .model = draft.model.get(),
            .facts = draft.specification.facts};
  }

  Speculation by_head(const RandomModel& head, int64_t drafts) const {
    Speculation speculation = by_model(head, drafts);
    speculation.kind = Kind::head;
    speculation.type = at::kDouble;
    return speculation;
  }

  // Returns requests of several lengths: greedy, sampled with all kinds of options, and with
  // constraints.
  static std::vector<Request> requests() {
    std::vector<Request> all;
    for (int64_t i = 0; i < 16; ++i) {
      Request request = greedy(prompt_of(5 + i * 3, i % 3), 5 + i * 2);
      request.logprobs = 1;
      if (i % 4 != 0) {
        request.sampling = {.temperature = 0.3 + 0.1 * static_cast<double>(i),
                            .seed = static_cast<uint64_t>(i)};
      }
      if (i % 4 == 2) request.sampling.top_p = 0.8;
      if (i % 4 == 3) request.sampling.frequency_penalty = 1.5;
      if (i % 5 == 1) request.constraint = std::make_shared<OnlyNeighbours>();
      if (i % 5 == 2) request.end_tokens = {3, 7, 18, 21};
      if (i % 5 == 3) {
        request.on_token = [left = i](const GeneratedToken&) mutable { return --left > 0; };
      }
      if (i % 7 == 4) request.prompt_logprobs = 0;
      all.push_back(request);
    }
    return all;
  }

  // Returns, for each request, its tokens, their rounded log-probabilities, and the finish reason.
  std::vector<std::string> run(EngineOptions options) {
    options.type = at::kDouble;
    options.max_model_len = 100;
    Answers answers;
    Engine engine(*tiny_.model, tiny_.specification.facts, options);
    for (Request& request : requests()) answers.submit(engine, std::move(request));
    engine.drain();
    statistics_ = engine.statistics();
    EXPECT_EQ(statistics_.pages_in_use, 0);
    std::vector<std::string> texts;
    for (const auto& answer : answers.all) {
      std::string text =
          fmt::format("{} {}", static_cast<int>(answer->reason.value()), answer->error);
      for (const GeneratedToken& token : answer->tokens) {
        text += fmt::format(" {}:{:.9f}", token.token, token.logprob);
      }
      texts.push_back(text);
    }
    return texts;
  }

  const RandomModel tiny_{tiny(), at::kDouble};
  EngineStatistics statistics_;
};

TEST_F(SpeculationTest, LooksUpWhatFollowed) {
  const auto look = [](const Tokens& text, int64_t most) {
    return look_up_continuation(text, most);
  };
  EXPECT_THAT(look({1, 2, 3, 4, 1, 2}, 3), testing::ElementsAre(3, 4, 1));
  EXPECT_THAT(look({1, 2, 3, 1, 2, 4, 1, 2}, 1), testing::ElementsAre(4));  // the last occurrence
  EXPECT_THAT(look({0, 1, 2, 3, 9, 1, 2, 4, 0, 1, 2}, 1), testing::ElementsAre(3));  // the longest
  EXPECT_THAT(look({5, 5, 5}, 4), testing::ElementsAre(5));
  EXPECT_THAT(look({1, 2, 3, 4}, 4), testing::IsEmpty());
  EXPECT_THAT(look({1}, 4), testing::IsEmpty());
  EXPECT_THAT(look({1, 2}, 4), testing::IsEmpty());
}

TEST_F(SpeculationTest, TextsAreWhatTheyAreWithoutGuesses) {
  const RandomModel draft(small_draft(), at::kDouble);
  const RandomModel head(tiny_of(50, true), at::kDouble);
  ASSERT_EQ(head.specification.facts.layers, 1);
  const std::vector<std::string> alone = run({.max_num_seqs = 1});
  const int64_t page_bytes = 2 * 2 * 24 * 16 * 8, draft_bytes = 2 * 12 * 16 * 8;
  int64_t preemptions = 0, hits = 0;
  for (const int64_t drafts : {1, 6}) {
    for (const Speculation& speculation :
         {Speculation{.kind = Kind::lookup, .drafts = drafts}, by_model(draft, drafts),
          by_model(tiny_, drafts), by_head(head, drafts)}) {
      for (const int64_t batch : {1, 5, 16}) {
        for (const int64_t chunk : {512, 20}) {
          for (const bool few : {false, true}) {
            SCOPED_TRACE(fmt::format("drafts {} {}, batch {}, chunk {}, few pages {}", drafts,
                                     static_cast<int>(speculation.kind), batch, chunk, few));
            EngineOptions options{.max_num_seqs = batch,
                                  .max_batch_tokens = chunk,
                                  .batch_invariant = few,
                                  .speculation = speculation};
            if (few) options.cache_bytes = 12 * (2 * page_bytes + draft_bytes);
            EXPECT_EQ(run(options), alone);
            EXPECT_GT(statistics_.draft_tokens, 0);
            EXPECT_LE(statistics_.accepted_tokens, statistics_.draft_tokens);
            preemptions += statistics_.preemptions;
            hits += statistics_.prefix_hits;
          }
        }
      }
    }
  }
  EXPECT_GT(preemptions, 10);
  EXPECT_GT(hits, 100);
}

// Of several sequences in a step, some have an accepted draft and others none: the head reads
// chunks of different lengths.
TEST_F(SpeculationTest, AHeadGoesOnGuessingAfterTextsOfAllKinds) {
  const RandomModel head(tiny_of(50, true), at::kDouble);
  Answers answers;
  Engine engine(*tiny_.model, tiny_.specification.facts,
                {.speculation = by_head(head, 3), .type = at::kDouble});
  for (Request& request : requests()) answers.submit(engine, std::move(request));
  engine.drain();
  const int64_t before = engine.statistics().draft_tokens;
  EXPECT_GT(before, 0);
  answers.submit(engine, greedy(prompt_of(7, 1), 20));
  engine.drain();
  EXPECT_GT(engine.statistics().draft_tokens, before);
}

TEST_F(SpeculationTest, AHeadReadsTheStatesOfTheTokensBefore) {
  int64_t all_right = 0, all_made = 0;
  for (const int64_t vocabulary : {2, 3, 5, 7}) {
    const RandomModel model(tiny_of(vocabulary, false), at::kDouble);
    const RandomModel head(tiny_of(vocabulary, true), at::kDouble);
    for (const int64_t chunk : {512, 7}) {
      const Tokens prompt = prompt_of(20, chunk, vocabulary);
      Engine engine(
          *model.model, model.specification.facts,
          {.max_batch_tokens = chunk, .speculation = by_head(head, 1), .type = at::kDouble});
      Answers answers;
      answers.submit(engine, greedy(prompt, 100));
      engine.drain();
      Tokens text = prompt;
      for (const int32_t token : answers[0].numbers()) text.push_back(token);
      ASSERT_EQ(text.size(), 120);
      const auto [made, right] = guesses_of(model, head, text, 20);
      EXPECT_EQ(engine.statistics().draft_tokens, made);
      EXPECT_EQ(engine.statistics().accepted_tokens, right);
      all_right += right;
      all_made += made;
    }
  }
  EXPECT_GT(all_right, 20);
  EXPECT_LT(all_right, all_made - 20);
}

TEST_F(SpeculationTest, WrongGuessesBecomeFewer) {
  DraftLength length;
  const auto after = [&](int64_t checked, int64_t right) {
    length.learn(checked, right);
    return length.next(8);
  };
  EXPECT_EQ(length.next(8), 8);
  EXPECT_EQ(after(8, 3), 8);
  EXPECT_EQ(after(8, 0), 4);
  EXPECT_EQ(after(4, 0), 2);
  EXPECT_EQ(after(2, 2), 4);
  EXPECT_EQ(after(2, 0), 1);
  EXPECT_EQ(after(1, 0), 0);
  for (int64_t step = 0; step < 6; ++step) EXPECT_EQ(after(0, 0), 0);
  EXPECT_EQ(after(0, 0), 1);
  EXPECT_EQ(after(1, 1), 2);
  EXPECT_EQ(after(8, 8), 8);
}

// A model that is its own draft model proposes only right tokens, and needs few passes.
TEST_F(SpeculationTest, TheModelsOwnGuessesAreRight) {
  Answers answers;
  Engine engine(*tiny_.model, tiny_.specification.facts,
                {.speculation = by_model(tiny_, 4), .type = at::kDouble});
  Request request{.prompt = prompt_of(20, 1), .sampling = {.seed = 3}, .max_new_tokens = 51};
  answers.submit(engine, request);
  engine.drain();
  const EngineStatistics statistics = engine.statistics();
  EXPECT_EQ(statistics.accepted_tokens, statistics.draft_tokens);
  EXPECT_EQ(statistics.accepted_tokens, 40);
  EXPECT_EQ(statistics.steps, 11);  // the prompt, then 5 tokens per step
}

TEST_F(SpeculationTest, GuessesKeepToAConstraint) {
  Answers answers;
  Engine engine(*tiny_.model, tiny_.specification.facts,
                {.speculation = by_model(tiny_, 4), .type = at::kDouble});
  Request request{.prompt = prompt_of(20, 1), .sampling = {.seed = 3}, .max_new_tokens = 51};
  request.constraint = std::make_shared<OnlyNeighbours>();
  answers.submit(engine, request);
  engine.drain();
  EXPECT_EQ(answers[0].tokens.size(), 51) << answers[0].error;
  EXPECT_EQ(engine.statistics().accepted_tokens, 40);
  EXPECT_EQ(engine.statistics().steps, 11);
}

// Throws in one of its functions, from the given number of accepted tokens on.
class Throwing : public LogitsConstraint {
 public:
  enum class In { clone, apply, accept };
  Throwing(In in, int64_t from) : in_(in), from_(from) {}

  void apply(at::Tensor&) override { throw_in(In::apply); }
  void accept(int32_t) override {
    throw_in(In::accept);
    ++accepted_;
  }
  std::shared_ptr<LogitsConstraint> clone() const override {
    throw_in(In::clone);
    return std::make_shared<Throwing>(*this);
  }

 private:
  void throw_in(In in) const {
    if (in == in_ && accepted_ >= from_) throw std::runtime_error("a constraint's own error");
  }

  In in_;
  int64_t from_, accepted_ = 0;
};

// A constraint that throws while tokens are drafted ends the drafts of its request, and only where
// it throws for the text itself, the request; other requests still get drafts.
TEST_F(SpeculationTest, AConstraintThatThrowsEndsItsRequestOnlyAtItsText) {
  const RandomModel head(tiny_of(50, /*draft_head=*/true), at::kDouble);
  for (const Speculation& speculation : {by_model(tiny_, 4), by_head(head, 4)}) {
    using In = Throwing::In;
    for (const In in : {In::clone, In::apply, In::accept}) {
      Answers answers;
      Engine engine(*tiny_.model, tiny_.specification.facts,
                    {.speculation = speculation, .type = at::kDouble});
      Request request{.prompt = prompt_of(20, 1), .max_new_tokens = 40};
      answers.submit(engine, request);
      request.constraint = std::make_shared<Throwing>(in, 3);
      answers.submit(engine, request);
      engine.drain();
      EXPECT_EQ(answers[0].tokens.size(), 40) << answers[0].error;
      if (in == In::clone) {  // which only drafting calls
        EXPECT_EQ(answers[1].numbers(), answers[0].numbers()) << answers[1].error;
      } else {
        EXPECT_EQ(answers[1].reason, FinishReason::failed);
        EXPECT_EQ(answers[1].error, "a constraint's own error");
        EXPECT_EQ(answers[1].tokens.size(), 3);
      }
      EXPECT_GE(engine.statistics().draft_failures, 1);
      EXPECT_EQ(engine.statistics().pages_in_use, 0);
      if (speculation.kind == Kind::model) {
        EXPECT_GE(engine.statistics().accepted_tokens, 30);
      }
      // Drafts continued long after the other request had ended.
      EXPECT_GT(engine.statistics().draft_tokens, 8);
    }
  }
}

// Counts the tokens that a model reads.
class CountingModel : public models::Model, private models::TextInputs {
 public:
  explicit CountingModel(models::Model& model) : model_(model) {}

  int64_t tokens() const { return tokens_; }

  nn::StepContext context_of(const data::Batch& batch, const nn::StepContext& base,
                             const nn::SequencePart& part) const override {
    return model_.context_of(batch, base, part);
  }
  nn::BlockState inputs(const data::Batch& batch, const nn::StepContext& context) override {
    return model_.inputs(batch, context);
  }
  int64_t num_blocks() const override { return model_.num_blocks(); }
  nn::BlockState run_blocks(Range blocks, const nn::BlockState& streams,
                            const nn::StepContext& context) override {
    return model_.run_blocks(blocks, streams, context);
  }

 protected:
  Parts parts() override { return {.text_inputs = this, .token_head = &model_.token_head()}; }
  nn::BlockState embed(const models::TokenInputs& inputs, const nn::StepContext& context) override {
    tokens_ += inputs.tokens.numel();
    return model_.text_inputs().embed(inputs, context);
  }
  at::Tensor encode(const at::Tensor&, const nn::StepContext&) override {
    throw Error("no drafter asks for it");
  }

 private:
  models::Model& model_;
  int64_t tokens_ = 0;
};

// Throws, not a std::exception, in some of its passes.
class FailingModel : public CountingModel {
 public:
  FailingModel(models::Model& model, int64_t first, int64_t count)
      : CountingModel(model), first_(first), count_(count) {}

 protected:
  nn::BlockState embed(const models::TokenInputs& inputs, const nn::StepContext& context) override {
    const int64_t pass = passes_++;
    if (pass >= first_ && pass < first_ + count_) throw 7;
    return CountingModel::embed(inputs, context);
  }

 private:
  int64_t first_, count_, passes_ = 0;
};

TEST_F(SpeculationTest, ADrafterThatFailsIsTriedAgain) {
  const Request request{.prompt = prompt_of(20, 1), .sampling = {.seed = 3}, .max_new_tokens = 100};
  Answers expected;
  Engine alone(*tiny_.model, tiny_.specification.facts, {.type = at::kDouble});
  expected.submit(alone, request);
  alone.drain();
  const RandomModel head(tiny_of(50, /*draft_head=*/true), at::kDouble);
  for (const Kind kind : {Kind::model, Kind::head}) {
    FailingModel draft(kind == Kind::model ? *tiny_.model : *head.model, 3, 2);
    Speculation speculation = kind == Kind::model ? by_model(tiny_, 4) : by_head(head, 4);
    speculation.model = &draft;
    Answers answers;
    Engine engine(*tiny_.model, tiny_.specification.facts,
                  {.speculation = speculation, .type = at::kDouble});
    for (int i = 0; i < 2; ++i) {
      const int64_t drafted = engine.statistics().draft_tokens;
      answers.submit(engine, request);
      engine.drain();
      EXPECT_EQ(answers[i].numbers(), expected[0].numbers()) << answers[i].error;
      if (i > 0) {
        EXPECT_GT(engine.statistics().draft_tokens, drafted);
      }
    }
    EXPECT_EQ(engine.statistics().draft_failures, 2);
  }
}

// Of 70 tokens that begin like another text, 4 pages of 16 are found; the drafts are as good.
TEST_F(SpeculationTest, ADraftModelReadsEqualBeginningsOnce) {
  CountingModel draft(*tiny_.model);
  Speculation speculation = by_model(tiny_, 3);
  speculation.model = &draft;
  Answers answers;
  Engine engine(*tiny_.model, tiny_.specification.facts,
                {.speculation = speculation, .type = at::kDouble});
  Tokens prompt = prompt_of(70, 1);
  std::vector<int64_t> read;
  for (const bool other_end : {false, true}) {
    const int64_t before = draft.tokens();
    if (other_end) prompt[68] = (prompt[68] + 1) % 50;
    answers.submit(engine, greedy(prompt, 9));
    engine.drain();
    read.push_back(draft.tokens() - before);
  }
  EXPECT_EQ(read[0] - read[1], 64);
  EXPECT_EQ(engine.statistics().accepted_tokens, engine.statistics().draft_tokens);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(answers[i].tokens.size(), 9) << answers[i].error;
}

// Computes the distribution by the documented definition of the options, with plain tensor
// operations.
at::Tensor distribution_of(const at::Tensor& logits, const SamplingOptions& sampling) {
  at::Tensor scaled = logits / sampling.temperature;
  if (sampling.top_k > 0) {
    const at::Tensor least = std::get<0>(scaled.topk(sampling.top_k, -1)).amin(-1, true);
    scaled = scaled.masked_fill(scaled < least, -INFINITY);
  }
  const at::Tensor all = scaled.softmax(-1);
  if (sampling.top_p == 1) return all;
  // The probability of all more likely tokens: tokens are kept until they reach top_p.
  const auto [sorted, places] = all.sort(-1, /*descending=*/true);
  const at::Tensor before = (sorted.cumsum(-1) - sorted);
  const at::Tensor kept = sorted.masked_fill(before >= sampling.top_p, 0);
  const at::Tensor in_place = at::zeros_like(all).scatter(-1, places, kept);
  return in_place / in_place.sum(-1, true);
}

// Returns how far the chi-square of the counts is above its mean, in standard deviations of the
// nearly normal variable of E. Wilson and M. Hilferty (1931). Rare outcomes count as one outcome.
double excess_of(const std::vector<int64_t>& counts, const at::Tensor& probabilities,
                 int64_t draws) {
  double statistic = 0, rare_expected = 0, rare_count = 0;
  int64_t outcomes = 0;
  const auto add = [&](double count, double expected) {
    statistic += (count - expected) * (count - expected) / expected;
    ++outcomes;
  };
  for (int64_t i = 0; i < std::ssize(counts); ++i) {
    const auto count = static_cast<double>(counts[i]);
    const double expected = probabilities[i].item<double>() * static_cast<double>(draws);
    if (expected == 0) {
      EXPECT_EQ(count, 0) << "an impossible text";
    } else if (expected < 5) {
      rare_expected += expected;
      rare_count += count;
    } else {
      add(count, expected);
    }
  }
  if (rare_expected > 5) add(rare_count, rare_expected);
  EXPECT_GT(outcomes, 20);
  const auto freedom = static_cast<double>(outcomes - 1);
  const double variance = 2 / (9 * freedom);
  return (std::cbrt(statistic / freedom) - 1 + variance) / std::sqrt(variance);
}

// Compares the joint distribution of three tokens over many seeds with that of whole passes without
// a KV cache.
TEST_F(SpeculationTest, DrawsHaveTheModelsDistribution) {
  const at::NoGradGuard no_grad;
  constexpr int64_t kVocabulary = 7, kDraws = 3000;
  const RandomModel model(tiny_of(kVocabulary, false), at::kDouble);
  const RandomModel head(tiny_of(kVocabulary, true), at::kDouble);
  auto small = models::resolve_model({.preset = "gpt2-tiny",
                                      .overrides = {{"n_layer", 1},
                                                    {"n_embd", 12},
                                                    {"n_head", 2},
                                                    {"vocab_size", kVocabulary},
                                                    {"n_positions", 128}}});
  const RandomModel draft(small, at::kDouble);
  const Tokens prompt = prompt_of(9, 1, kVocabulary);
  const auto expected_of = [&](const SamplingOptions& sampling) {
    at::Tensor texts = at::tensor(prompt, at::kLong).view({1, -1});
    at::Tensor joint = at::ones({1, 1}, at::kDouble);
    for (int token = 0; token < 3; ++token) {
      const int64_t rows = texts.size(0), length = texts.size(1);
      const at::Tensor last = at::arange(1, rows + 1, at::kLong) * length - 1;
      const at::Tensor logits =
          logits_of(*model.model, texts, nn::make_step_context(rows, length, at::kCPU), last);
      joint = (joint.view({-1, 1}) * distribution_of(logits, sampling)).view({-1, 1});
      texts = at::cat({texts.repeat_interleave(kVocabulary, 0),
                       at::arange(kVocabulary, at::kLong).repeat({rows}).unsqueeze(1)},
                      1);
    }
    return joint.flatten();
  };
  for (const SamplingOptions& sampling :
       std::vector<SamplingOptions>{{.temperature = 1},
                                    {.temperature = 1.7},
                                    {.temperature = 1.3, .top_k = 4},
                                    {.temperature = 1.5, .top_p = 0.85}}) {
    const at::Tensor expected = expected_of(sampling);
    for (const Speculation& speculation : {by_model(draft, 2), by_head(head, 2)}) {
      SCOPED_TRACE(fmt::format("{} {} {} {}", static_cast<int>(speculation.kind),
                               sampling.temperature, sampling.top_k, sampling.top_p));
      Answers answers;
      Engine engine(*model.model, model.specification.facts,
                    {.max_queue = kDraws, .speculation = speculation, .type = at::kDouble});
      for (int64_t i = 0; i < kDraws; ++i) {
        Request request{.prompt = prompt, .sampling = sampling, .max_new_tokens = 4};
        request.sampling.seed = static_cast<uint64_t>(i);
        answers.submit(engine, std::move(request));
      }
      engine.drain();
      std::vector<int64_t> counts(expected.numel());
      for (const auto& answer : answers.all) {
        const Tokens text = answer->numbers();
        ++counts.at((text[0] * kVocabulary + text[1]) * kVocabulary + text[2]);
      }
      // By chance, 1 of 5,000 values is larger.
      EXPECT_LT(std::abs(excess_of(counts, expected, kDraws)), 3.7);
      EXPECT_GT(engine.statistics().accepted_tokens, kDraws / 10);
      EXPECT_LT(engine.statistics().accepted_tokens, engine.statistics().draft_tokens);
    }
  }
}

TEST_F(SpeculationTest, TheLengthIsReducedToTheRoomOfThePages) {
  EngineOptions options{.max_num_seqs = 1, .speculation = by_model(tiny_, 3), .type = at::kDouble};
  const auto resolved = [&] {
    return Engine(*tiny_.model, tiny_.specification.facts, options).options();
  };
  const EngineOptions whole = resolved();
  EXPECT_EQ(whole.max_model_len, tiny_.specification.facts.positions);
  options.cache_bytes = whole.cache_bytes / 2;
  EXPECT_LT(resolved().max_model_len, whole.max_model_len);
  EXPECT_GT(resolved().max_model_len, whole.max_model_len / 4);
}

TEST_F(SpeculationTest, WhatDoesNotFitIsRefused) {
  auto specification = models::resolve_model({.preset = "gpt2-tiny",
                                              .overrides = {{"n_layer", 1},
                                                            {"n_embd", 12},
                                                            {"n_head", 2},
                                                            {"vocab_size", 51},
                                                            {"n_positions", 64}}});
  const RandomModel other(specification, at::kDouble);
  const auto refused = [&](const EngineOptions& options) {
    EXPECT_THROW(Engine(*tiny_.model, tiny_.specification.facts, options), ConfigError);
  };
  refused({.speculation = by_model(other, 4)});
  refused({.speculation = {.kind = Kind::lookup, .drafts = 0}});
}

}  // namespace
}  // namespace colossal::serve
