// The engine: a request's answer does not depend on other requests.
#include "colossal/serve/engine.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <future>
#include <mutex>

#include "colossal/io/json.h"
#include "tests/serve/random_model.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/whole_pass.h"

namespace colossal::serve {
namespace {

class EngineTest : public testing::Test {
 protected:
  EngineTest() { at::set_num_threads(1); }  // more threads only slow down such small tensors

  Answers::Answer answer_of(const Request& request, const EngineOptions& options = {}) const {
    Answers answers;
    Engine engine(*tiny_.model, tiny_.specification.facts, with_type(options));
    answers.submit(engine, request);
    engine.drain();
    return answers[0];
  }
  static EngineOptions with_type(EngineOptions options) {
    options.type = at::kDouble;
    return options;
  }

  const RandomModel tiny_{tiny(), at::kDouble};
};

struct Setting {
  int64_t batch, chunk;
  bool prefix_cache, few_pages, invariant;
};

std::vector<Setting> settings() {
  return {{1, 512, false, false, false}, {4, 16, true, false, false}, {16, 64, false, false, false},
          {16, 512, true, true, false},  {4, 5, false, true, true},   {16, 16, true, true, false}};
}

// Runs prompts of different lengths, of which some have equal beginnings. Adds to the counts of
// preemptions and prefix hits.
void expect_greedy(const RandomModel& model, const Setting& setting, int64_t& preemptions,
                   int64_t& prefix_hits) {
  const models::ModelFacts& facts = model.specification.facts;
  const int64_t positions = std::min<int64_t>(facts.positions, 48);
  EngineOptions options{.max_num_seqs = setting.batch,
                        .max_batch_tokens = setting.chunk,
                        .max_model_len = positions,
                        .prefix_cache = setting.prefix_cache,
                        .batch_invariant = setting.invariant,
                        .type = at::kFloat};
  const int64_t page_bytes = 2 * facts.layers * facts.kv_heads * facts.head_size * 16 * 4;
  const int64_t pages_of_one = positions / 16 + 1;
  options.cache_bytes = page_bytes * pages_of_one * (setting.few_pages ? 1 : setting.batch) +
                        (setting.few_pages ? 2 * page_bytes : 0);
  std::vector<Tokens> prompts;
  for (int64_t i = 0; i < std::max<int64_t>(2, setting.batch); ++i) {
    Tokens prompt = prompt_of(positions / 3, i % 3, facts.vocabulary);
    const Tokens end = prompt_of(1 + i * 5 % (positions / 3), i, facts.vocabulary);
    prompt.insert(prompt.end(), end.begin(), end.end());
    prompts.push_back(prompt);
  }
  Answers answers;
  Engine engine(*model.model, facts, options);
  for (const Tokens& prompt : prompts) answers.submit(engine, greedy(prompt, 12));
  engine.drain();
  for (size_t i = 0; i < prompts.size(); ++i) {
    Tokens expected = model.greedy(prompts[i], 12);
    expected.resize(std::min<int64_t>(std::ssize(expected), positions - std::ssize(prompts[i])));
    EXPECT_EQ(answers[i].numbers(), expected) << "prompt " << i;
    EXPECT_EQ(answers[i].reason, FinishReason::length) << answers[i].error;
  }
  const EngineStatistics statistics = engine.statistics();
  EXPECT_EQ(statistics.pages_in_use, 0);
  EXPECT_TRUE(setting.few_pages || statistics.preemptions == 0);
  EXPECT_TRUE(setting.prefix_cache || statistics.prefix_hits == 0);
  preemptions += statistics.preemptions;
  prefix_hits += statistics.prefix_hits;
}

TEST_F(EngineTest, GivesEveryFamilysTokensHoweverTheyAreBatched) {
  const nlohmann::json families = io::read_json(std::filesystem::path(COLOSSAL_TEST_SOURCE_DIR) /
                                                "tests" / "support" / "families.json");
  size_t which = 0;
  int64_t preemptions = 0, prefix_hits = 0;
  for (const auto& [family, fields] : families.items()) {
    const RandomModel model(family_of(family, fields), at::kFloat);
    // Two settings per family, so that every family runs with few pages, and all settings are
    // covered.
    const std::vector<Setting> all = settings();
    for (const size_t index : {which % all.size(), (which + 3) % all.size()}) {
      const Setting& s = all[index];
      SCOPED_TRACE(
          fmt::format("{}: batch {}, chunk {}, prefix cache {}, few pages {}, invariant {}", family,
                      s.batch, s.chunk, s.prefix_cache, s.few_pages, s.invariant));
      expect_greedy(model, s, preemptions, prefix_hits);
    }
    ++which;
  }
  EXPECT_GE(which, 21U);
  EXPECT_GT(preemptions, 50);
  EXPECT_GT(prefix_hits, 500);
}

TEST_F(EngineTest, EverySettingGivesTheSameTokens) {
  const RandomModel model(tiny(), at::kFloat);
  int64_t preemptions = 0, prefix_hits = 0;
  for (const int64_t batch : {1, 4, 16}) {
    for (const int64_t chunk : {16, 64, 512}) {
      for (const int bits : {0, 1, 2, 3}) {
        const Setting setting{batch, chunk, (bits & 1) != 0, (bits & 2) != 0 && batch > 1,
                              bits == 2};
        SCOPED_TRACE(fmt::format("batch {}, chunk {}, bits {}", batch, chunk, bits));
        expect_greedy(model, setting, preemptions, prefix_hits);
      }
    }
  }
  EXPECT_GT(preemptions, 10);
  EXPECT_GT(prefix_hits, 100);
}

// Log-probabilities have the same bits, too.
TEST_F(EngineTest, BatchInvarianceIsOfBits) {
  const nlohmann::json families = io::read_json(std::filesystem::path(COLOSSAL_TEST_SOURCE_DIR) /
                                                "tests" / "support" / "families.json");
  for (const auto& [type, specification] :
       {std::pair{at::kFloat, family_of("gemma2", families["gemma2"])},
        {at::kBFloat16, family_of("gemma2", families["gemma2"])},
        {at::kFloat, family_of("qwen3_moe", families["qwen3_moe"])},
        {at::kBFloat16, family_of("deepseek_v3", families["deepseek_v3"])},
        {at::kFloat, tiny()}}) {
    const RandomModel model(specification, type);
    const auto run = [&](int64_t batch, int64_t chunk, bool prefix_cache) {
      Answers answers;
      Engine engine(*model.model, model.specification.facts,
                    {.max_num_seqs = batch,
                     .max_batch_tokens = chunk,
                     .prefix_cache = prefix_cache,
                     .batch_invariant = true,
                     .type = type});
      for (int64_t i = 0; i < 20; ++i) {
        Request request = greedy(prompt_of(20 + i % 5, i % 4), 10);
        request.logprobs = 3;
        answers.submit(engine, request);
      }
      engine.drain();
      std::vector<double> logprobs;
      for (const auto& answer : answers.all) {
        for (const GeneratedToken& token : answer->tokens) {
          for (const TokenLogprob& each : token.top) logprobs.push_back(each.logprob);
        }
      }
      EXPECT_EQ(logprobs.size(), 20 * 10 * 3);
      return logprobs;
    };
    const std::vector<double> alone = run(1, 512, false);
    EXPECT_EQ(run(16, 512, false), alone);
    EXPECT_EQ(run(16, 7, true), alone);
    EXPECT_EQ(run(4, 64, true), alone);
  }
}

// With keys and values in int8, a text is the same however it is divided, shared and batched, and
// near to what it is without int8.
TEST_F(EngineTest, Int8KeysAndValuesAreTheSameHoweverTheyAreBatched) {
  for (const bool invariant : {true, false}) {
    const auto run = [&](int64_t batch, int64_t chunk, bool prefix_cache, bool few, bool int8) {
      Answers answers;
      EngineOptions options = with_type({.max_num_seqs = batch,
                                         .max_batch_tokens = chunk,
                                         .max_model_len = 64,
                                         .prefix_cache = prefix_cache,
                                         .batch_invariant = invariant,
                                         .int8_key_values = int8});
      if (few) options.cache_bytes = 6 * 2 * 2 * 3 * (8 + 4) * 16;
      Engine engine(*tiny_.model, tiny_.specification.facts, options);
      for (int64_t i = 0; i < 12; ++i) {
        Request request = greedy(prompt_of(20 + i % 5, i % 4), 10);
        request.logprobs = 0;
        answers.submit(engine, request);
      }
      engine.drain();
      EXPECT_EQ(engine.statistics().preemptions > 0, few);
      std::vector<double> logprobs;
      for (const auto& answer : answers.all) {
        for (const GeneratedToken& token : answer->tokens) logprobs.push_back(token.logprob);
      }
      EXPECT_EQ(logprobs.size(), 120);
      return logprobs;
    };
    const std::vector<double> alone = run(1, 512, false, false, true);
    const auto expect_alike = [&](const std::vector<double>& others) {
      for (size_t i = 0; i < alone.size(); ++i) {
        EXPECT_NEAR(others[i], alone[i], invariant ? 0 : 1e-6) << i;
      }
    };
    expect_alike(run(12, 512, true, false, true));
    expect_alike(run(12, 7, true, true, true));
    const std::vector<double> whole = run(1, 512, false, false, false);
    EXPECT_NE(whole, alone);
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(whole[i], alone[i], 0.1);
  }
}

TEST_F(EngineTest, DrawsAreOfSeedAndPosition) {
  const Request request{.prompt = prompt_of(20, 1), .sampling = {.seed = 11}, .max_new_tokens = 30};
  const Tokens alone = answer_of(request).numbers();
  EXPECT_EQ(alone.size(), 30);
  Answers answers;
  Engine engine(*tiny_.model, tiny_.specification.facts,
                with_type({.max_num_seqs = 5, .max_batch_tokens = 9}));
  for (int64_t i = 0; i < 8; ++i) {
    Request other = request;
    if (i != 6) other.sampling.seed = i;
    answers.submit(engine, other);
  }
  engine.drain();
  EXPECT_EQ(answers[6].numbers(), alone);
  EXPECT_NE(answers[5].numbers(), alone);
}

TEST_F(EngineTest, LogprobsAreTheModels) {
  Request request = greedy(prompt_of(37, 2), 3);
  request.logprobs = 2;
  request.prompt_logprobs = 0;
  request.sampling.repetition_penalty = 1.3;
  for (const int64_t chunk : {512, 10}) {
    const Answers::Answer answer = answer_of(request, {.max_batch_tokens = chunk});
    Tokens all = request.prompt;
    for (const int32_t token : answer.numbers()) all.push_back(token);
    const at::NoGradGuard no_grad;
    const auto length = std::ssize(all);
    const at::Tensor expected =
        logits_of(*tiny_.model, at::tensor(all, at::kLong).view({1, length}),
                  nn::make_step_context(1, length, at::kCPU))
            .log_softmax(-1)[0];
    ASSERT_EQ(answer.prompt.size(), request.prompt.size());
    EXPECT_FALSE(answer.prompt[0]);
    for (int64_t i = 1; i < length; ++i) {
      const bool of_prompt = i < std::ssize(request.prompt);
      const GeneratedToken& token =
          of_prompt ? *answer.prompt[i] : answer.tokens[i - std::ssize(request.prompt)];
      EXPECT_EQ(token.token, all[i]);
      EXPECT_NEAR(token.logprob, expected[i - 1][all[i]].item<double>(), 1e-10);
      ASSERT_EQ(token.top.size(), of_prompt ? 0 : 2);
      if (of_prompt) continue;
      const auto [values, tokens] = expected[i - 1].topk(2);
      for (int64_t k = 0; k < 2; ++k) {
        EXPECT_EQ(token.top[k].token, tokens[k].item<int64_t>());
        EXPECT_NEAR(token.top[k].logprob, values[k].item<double>(), 1e-10);
      }
    }
  }
}

TEST_F(EngineTest, APromptAloneIsScored) {
  Request request = greedy(prompt_of(128, 2), 0);
  request.prompt_logprobs = 1;
  const Answers::Answer answer = answer_of(request);
  EXPECT_EQ(answer.prompt.size(), 128);
  EXPECT_TRUE(answer.tokens.empty());
  EXPECT_EQ(answer.reason, FinishReason::length);
}

TEST_F(EngineTest, EndsWhereTheRequestSays) {
  const Request request = greedy(prompt_of(9, 3), 20);
  const Tokens all = answer_of(request).numbers();
  Request ended = request;
  ended.end_tokens = {all[7]};
  const auto first = std::ranges::find(all, all[7]);
  Answers::Answer answer = answer_of(ended);
  EXPECT_EQ(answer.numbers(), Tokens(all.begin(), first));
  EXPECT_EQ(answer.reason, FinishReason::stop);
  EXPECT_EQ(answer.usage.completion_tokens, first - all.begin());
  ended.sampling.min_tokens = 15;
  EXPECT_GE(answer_of(ended).numbers().size(), 15);
  Request stopped = request;
  stopped.on_token = [count = 0](const GeneratedToken&) mutable { return ++count < 4; };
  answer = answer_of(stopped);
  EXPECT_EQ(answer.numbers(), Tokens(all.begin(), all.begin() + 4));
  EXPECT_EQ(answer.reason, FinishReason::stop);
  // The model has 128 positions.
  answer = answer_of(greedy(prompt_of(120, 3), 100));
  EXPECT_EQ(answer.tokens.size(), 8);
  EXPECT_EQ(answer.reason, FinishReason::length);
}

// Allows even tokens only, and ends after four tokens.
class EvenTokens : public LogitsConstraint {
 public:
  void apply(at::Tensor& logits) override {
    logits.view({-1, 2}).select(1, 1).fill_(-std::numeric_limits<double>::infinity());
  }
  void accept(int32_t token) override { accepted_.push_back(token); }
  bool finished() const override { return accepted_.size() == 4; }
  const Tokens& accepted() const { return accepted_; }
  std::shared_ptr<LogitsConstraint> clone() const override {
    return std::make_shared<EvenTokens>(*this);
  }

 private:
  Tokens accepted_;
};

TEST_F(EngineTest, AConstraintIsAskedAndTold) {
  Request request{.prompt = prompt_of(5, 1), .max_new_tokens = 50};
  const auto constraint = std::make_shared<EvenTokens>();
  request.constraint = constraint;
  const Answers::Answer answer = answer_of(request);
  EXPECT_EQ(answer.numbers(), constraint->accepted());
  EXPECT_THAT(answer.numbers(), testing::Each(testing::ResultOf([](int t) { return t % 2; }, 0)));
  EXPECT_EQ(answer.tokens.size(), 4);
  EXPECT_EQ(answer.reason, FinishReason::stop);
}

TEST_F(EngineTest, PagesAreFoundAgainByEqualSaltsOnly) {
  Engine engine(*tiny_.model, tiny_.specification.facts, with_type({}));
  Answers answers;
  const auto ask = [&](const Tokens& prompt, const std::string& salt) {
    Request request = greedy(prompt, 4);
    request.cache_salt = salt;
    request.logprobs = 0;
    answers.submit(engine, request);
    engine.drain();
    return answers.all.back()->usage.cached_tokens;
  };
  const Tokens prompt = prompt_of(48, 5);
  EXPECT_EQ(ask(prompt, ""), 0);
  // The last token's logits are needed, so that its page is copied.
  EXPECT_EQ(ask(prompt, ""), 47);
  EXPECT_EQ(ask(prompt, "other"), 0);
  Tokens longer = prompt;
  longer.push_back(1);
  EXPECT_EQ(ask(longer, ""), 48);
  Tokens shorter(prompt.begin(), prompt.begin() + 40);
  EXPECT_EQ(ask(shorter, ""), 32);
  EXPECT_EQ(answers[1].numbers(), answers[0].numbers());
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(answers[1].tokens[i].logprob, answers[0].tokens[i].logprob, 1e-12);
  }
  EXPECT_EQ(answers[2].numbers(), answers[0].numbers());
  EXPECT_EQ(answers[3].numbers(), tiny_.greedy(longer, 4));
  EXPECT_EQ(engine.statistics().prefix_hits, 47 + 48 + 32);
}

// Requests are answered by priority, then by arrival, one at a time.
TEST_F(EngineTest, PrioritiesThenArrivalDecide) {
  Engine engine(*tiny_.model, tiny_.specification.facts, with_type({.max_num_seqs = 1}));
  std::promise<void> first_runs, all_submitted;
  std::vector<int> ended;
  const auto submit = [&](int number, int priority) {
    Request request = greedy(prompt_of(5, number), 2);
    request.priority = priority;
    if (number == 0) {
      request.on_token = [&, told = false, waits = all_submitted.get_future().share()](
                             const GeneratedToken&) mutable {
        if (!std::exchange(told, true)) first_runs.set_value();
        waits.wait();
        return true;
      };
    }
    request.on_finish = [&, number](FinishReason, const Usage&, const std::string&) {
      ended.push_back(number);
    };
    engine.submit(request);
  };
  submit(0, 5);
  first_runs.get_future().wait();
  submit(1, 1);
  submit(2, 0);
  submit(3, 0);
  submit(4, -1);
  all_submitted.set_value();
  engine.drain();
  EXPECT_EQ(ended, (std::vector<int>{0, 4, 2, 3, 1}));
}

TEST_F(EngineTest, MoreThanTheQueueTakesIsRefused) {
  Engine engine(*tiny_.model, tiny_.specification.facts,
                with_type({.max_num_seqs = 1, .max_queue = 2}));
  Answers answers;
  std::promise<void> refused;
  Request first = greedy(prompt_of(5, 1), 2);
  first.on_token = [waits = refused.get_future().share()](const GeneratedToken&) {
    waits.wait();
    return true;
  };
  answers.submit(engine, first);
  answers.submit(engine, greedy(prompt_of(5, 2), 2));
  answers.submit(engine, greedy(prompt_of(5, 3), 2));
  EXPECT_THROW(engine.submit(greedy(prompt_of(5, 4), 2)), QueueFull);
  refused.set_value();
  engine.drain();
  EXPECT_EQ(engine.statistics().finished[1], 3);
}

TEST_F(EngineTest, CancelledAndFailedRequestsLeaveNoPageInUse) {
  Answers answers;
  {
    Engine engine(*tiny_.model, tiny_.specification.facts,
                  with_type({.max_num_seqs = 4, .max_batch_tokens = 24}));
    std::vector<RequestId> ids;
    for (int64_t i = 0; i < 24; ++i) {
      Request request = greedy(prompt_of(20 + i, i), 60);
      if (i % 3 == 1) {
        request.on_token = [count = 0](const GeneratedToken&) mutable -> bool {
          if (++count == 5) throw Error("the client went away");
          return true;
        };
      }
      ids.push_back(answers.submit(engine, request));
      if (i % 3 == 2) engine.cancel(ids[i - i % 2]);
    }
    engine.drain();
    const EngineStatistics statistics = engine.statistics();
    EXPECT_EQ(statistics.pages_in_use, 0);
    EXPECT_EQ(statistics.running + statistics.waiting, 0);
    EXPECT_GT(statistics.finished[static_cast<size_t>(FinishReason::cancelled)], 0);
    EXPECT_GT(statistics.finished[static_cast<size_t>(FinishReason::failed)], 0);
    engine.cancel(ids[0]);
    engine.cancel(12345);
    for (const auto& answer : answers.all) {
      ASSERT_TRUE(answer->reason);
      const bool failed = *answer->reason == FinishReason::failed;
      EXPECT_EQ(answer->error, failed ? "the client went away" : "");
    }
    for (int64_t i = 0; i < 3; ++i) answers.submit(engine, greedy(prompt_of(5, i), 100));
  }
  for (const auto& answer : answers.all) EXPECT_TRUE(answer->reason);
}

TEST_F(EngineTest, ExceptionsOfAnyTypeEndTheirRequest) {
  Answers answers;
  Engine engine(*tiny_.model, tiny_.specification.facts, with_type({}));
  Request request = greedy(prompt_of(5, 1), 4);
  request.on_token = [](const GeneratedToken&) -> bool { throw 7; };
  answers.submit(engine, request);
  answers.submit(engine, greedy(prompt_of(5, 2), 4));
  engine.drain();
  EXPECT_EQ(*answers[0].reason, FinishReason::failed);
  EXPECT_EQ(answers[0].error, "an exception of an unknown type");
  EXPECT_EQ(answers[1].tokens.size(), 4u);
}

TEST_F(EngineTest, AFailedStepEndsItsRequestsAndNotTheEngine) {
  const RandomModel broken(tiny(), at::kDouble);
  Engine engine(*broken.model, broken.specification.facts, with_type({}));
  const at::Tensor& table = broken.build.parameters()[0]->tensor;
  const at::Tensor kept = table.clone();
  table.fill_(std::numeric_limits<double>::quiet_NaN());
  Answers answers;
  answers.submit(engine, greedy(prompt_of(5, 1), 3));
  engine.drain();
  EXPECT_EQ(answers[0].reason, FinishReason::failed);
  EXPECT_THAT(answers[0].error, testing::HasSubstr("not finite"));
  table.copy_(kept);
  answers.submit(engine, greedy(prompt_of(6, 1), 3));
  engine.drain();
  EXPECT_EQ(answers[1].reason, FinishReason::length);
}

TEST_F(EngineTest, RefusesWhatCannotBe) {
  Engine engine(*tiny_.model, tiny_.specification.facts, with_type({}));
  EXPECT_THROW(engine.submit(greedy({}, 1)), ConfigError);
  EXPECT_THROW(engine.submit(greedy({50}, 1)), ConfigError);
  EXPECT_THROW(engine.submit(greedy({-1}, 1)), ConfigError);
  EXPECT_THROW(engine.submit(greedy(prompt_of(128, 1), 1)), ConfigError);
  EXPECT_THROW(engine.submit(greedy(prompt_of(129, 1), 0)), ConfigError);
  EXPECT_THROW(engine.submit(greedy({1}, -1)), ConfigError);
  Request bad = greedy({1}, 1);
  bad.sampling.top_p = 0;
  EXPECT_THROW(engine.submit(bad), ConfigError);
  const auto refused = [&](const EngineOptions& options) {
    EXPECT_THROW(Engine(*tiny_.model, tiny_.specification.facts, options), ConfigError);
  };
  refused({.page_size = 10});
  refused({.cache_bytes = 1});
  refused({.max_num_seqs = 0});
  refused({.max_batch_tokens = 0});
  refused({.max_model_len = 129});
  refused({.cache_bytes = 4096, .max_model_len = 100});
}

}  // namespace
}  // namespace colossal::serve
