// Beam search: tests/e2e/beam_search_test.py compares it with transformers.
#include "colossal/serve/beam_search.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "colossal/base/error.h"
#include "colossal/serve/engine_core.h"
#include "tests/serve/random_model.h"
#include "tests/support/whole_pass.h"

namespace colossal::serve {
namespace {

// Returns log-probabilities of three tokens that may follow a text; token 2 ends it.
std::vector<double> next_of(const Tokens& text) {
  double seed = 1;
  for (const int32_t token : text) seed = std::fmod(seed * 7.3 + token * 2.1 + 0.7, 5);
  std::vector<double> weights{std::exp(std::sin(seed)), std::exp(std::cos(3 * seed)),
                              std::exp(std::sin(5 * seed) - 1)};
  const double sum = weights[0] + weights[1] + weights[2];
  for (double& weight : weights) weight = std::log(weight / sum);
  return weights;
}

// Scores all texts of at most `most` tokens.
void look_at_all(const Tokens& text, double sum, int64_t most, double penalty,
                 std::map<double, Tokens>& by_score) {
  const std::vector<double> next = next_of(text);
  for (int32_t token = 0; token < 3; ++token) {
    const double score = sum + next[token];
    const int64_t length = std::ssize(text) + 1;
    Tokens longer = text;
    if (token != 2) longer.push_back(token);
    if (token == 2 || length == most) {
      by_score[-score / std::pow(length, penalty)] = longer;
    } else {
      look_at_all(longer, score, most, penalty, by_score);
    }
  }
}

Tokens numbers_of(const std::vector<GeneratedToken>& tokens) {
  Tokens numbers;
  for (const GeneratedToken& token : tokens) numbers.push_back(token.token);
  return numbers;
}

TEST(BeamSearch, FindsTheBestOfAllTextsWhereNoneIsDropped) {
  for (const double penalty : {0.0, 0.7, 1.5, -1.0}) {
    SCOPED_TRACE(penalty);
    constexpr int64_t kMost = 5;
    BeamSearch search(
        {.width = 243, .length_penalty = penalty, .early_stopping = EarlyStopping::never}, {2},
        kMost);
    std::vector<Tokens> beams{{}};
    while (!beams.empty()) {
      std::vector<std::vector<BeamSearch::Candidate>> candidates;
      for (const Tokens& beam : beams) {
        candidates.emplace_back();
        const std::vector<double> next = next_of(beam);
        for (int32_t token = 0; token < 3; ++token) {
          candidates.back().push_back({{.token = token}, next[token]});
        }
      }
      std::vector<Tokens> longer;
      for (const auto& [parent, token, score] : search.advance(candidates)) {
        longer.push_back(beams[parent]);
        longer.back().push_back(token.token);
      }
      beams = std::move(longer);
    }
    std::map<double, Tokens> expected;
    look_at_all({}, 0, kMost, penalty, expected);
    ASSERT_EQ(search.finished().size(), expected.size());
    auto next = expected.begin();
    for (const BeamText& found : search.finished()) {
      EXPECT_NEAR(found.score, -next->first, 1e-12);
      EXPECT_EQ(numbers_of(found.tokens), next->second);
      ++next;
    }
  }
}

struct Found {
  std::vector<BeamText> texts;
  FinishReason reason = FinishReason::failed;
  std::string error;
};

class BeamEngine : public testing::Test {
 protected:
  BeamEngine() { at::set_num_threads(1); }  // more threads only slow down such small tensors

  static Request request_of(int64_t which) {
    return {.prompt = prompt_of(3 + 5 * which % 11, which % 3),
            .max_new_tokens = 20 - which,
            .end_tokens = {static_cast<int32_t>(7 + which), 11},
            .logprobs = which % 2 == 0 ? 2 : -1,
            .beams = {.width = 2 + which % 4, .length_penalty = 0.6 * static_cast<double>(which)}};
  }

  std::vector<Found> run(EngineOptions options, int64_t count, EngineStatistics* counted = nullptr,
                         bool others = false) const {
    options.type = at::kDouble;
    std::vector<Found> found(count);
    Engine engine(*tiny_.model, tiny_.specification.facts, options);
    for (int64_t i = 0; i < count; ++i) {
      Request request = request_of(i);
      request.on_beams = [&found, i](const auto& texts) { found[i].texts = texts; };
      request.on_finish = [&found, i](FinishReason reason, const Usage&, const std::string& error) {
        found[i].reason = reason;
        found[i].error = error;
      };
      engine.submit(request);
      if (others) engine.submit(greedy(prompt_of(9, i), 7));
    }
    engine.drain();
    EXPECT_EQ(engine.statistics().pages_in_use, 0);
    if (counted) *counted = engine.statistics();
    return found;
  }

  static void expect_same(const std::vector<Found>& found, const std::vector<Found>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_EQ(found[i].reason, expected[i].reason) << found[i].error;
      ASSERT_EQ(found[i].texts.size(), expected[i].texts.size());
      for (size_t beam = 0; beam < found[i].texts.size(); ++beam) {
        EXPECT_EQ(numbers_of(found[i].texts[beam].tokens),
                  numbers_of(expected[i].texts[beam].tokens));
        EXPECT_NEAR(found[i].texts[beam].score, expected[i].texts[beam].score, 1e-11);
      }
    }
  }

  const RandomModel tiny_{tiny(), at::kDouble};
};

// Searches with the model alone, which computes each text from its beginning.
std::vector<BeamText> searched(const RandomModel& model, const Request& request) {
  const at::NoGradGuard no_grad;
  BeamSearch search(request.beams, request.end_tokens, request.max_new_tokens);
  std::vector<Tokens> beams{request.prompt};
  while (!beams.empty()) {
    std::vector<std::vector<BeamSearch::Candidate>> candidates;
    for (const Tokens& beam : beams) {
      const auto length = std::ssize(beam);
      const at::Tensor likely =
          logits_of(*model.model, at::tensor(beam, at::kLong).view({1, length}),
                    nn::make_step_context(1, length, at::kCPU))[0][length - 1]
              .to(at::kDouble)
              .log_softmax(-1);
      candidates.emplace_back();
      for (int32_t token = 0; token < likely.numel(); ++token) {
        candidates.back().push_back({{.token = token}, likely[token].item<double>()});
      }
    }
    std::vector<Tokens> longer;
    for (const auto& [parent, token, score] : search.advance(candidates)) {
      longer.push_back(beams[parent]);
      longer.back().push_back(token.token);
    }
    beams = std::move(longer);
  }
  return search.finished();
}

TEST_F(BeamEngine, GivesTheTextsOfTheModelAlone) {
  const std::vector<Found> found = run({}, 6);
  std::vector<Found> expected;
  for (int64_t i = 0; i < 6; ++i) {
    expected.push_back({.texts = searched(tiny_, request_of(i))});
    expected.back().reason = expected.back().texts.front().reason;
  }
  expect_same(found, expected);
  size_t tokens = 0;
  for (int64_t i = 0; i < 6; ++i) {
    for (const BeamText& text : found[i].texts) {
      tokens += text.tokens.size();
      for (const GeneratedToken& token : text.tokens) {
        EXPECT_EQ(token.top.size(), request_of(i).logprobs < 0 ? 0 : 2);
      }
    }
  }
  EXPECT_GT(tokens, 100);
}

// Few pages, so that beams are preempted; few requests at once, so that some wait; small steps, so
// that the beams of a request are not all in one step; other requests in between.
TEST_F(BeamEngine, DoesNotDependOnWhatRunsBesideAndHow) {
  const std::vector<Found> expected = run({}, 6);
  const int64_t page = page_bytes({.type = at::kDouble}, tiny_.specification.facts);
  int64_t preemptions = 0;
  for (const EngineOptions& options :
       std::vector<EngineOptions>{{.max_num_seqs = 5},
                                  {.max_batch_tokens = 3},
                                  {.prefix_cache = false},
                                  {.batch_invariant = true},
                                  {.cache_bytes = 6 * page, .max_num_seqs = 9, .max_model_len = 40},
                                  {.cache_bytes = 4 * page,
                                  .max_batch_tokens = 4,
                                  .max_model_len = 40,
                                  .prefix_cache = false},
                                  {.speculation = {.kind = Speculation::Kind::lookup}}}) {
    for (const bool others : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {} {} {}", options.max_num_seqs, options.max_batch_tokens,
                               options.cache_bytes, others));
      EngineStatistics counted;
      expect_same(run(options, 6, &counted, others), expected);
      preemptions += counted.preemptions;
    }
  }
  EXPECT_GT(preemptions, 20);
}

// Allows even tokens only, and ends after four tokens.
class FourEvenTokens : public LogitsConstraint {
 public:
  void apply(at::Tensor& logits) override { logits.view({-1, 2}).select(1, 1).fill_(-INFINITY); }
  void accept(int32_t token) override { count_ += token % 2 == 0 ? 1 : 100; }
  bool finished() const override { return count_ == 4; }
  std::shared_ptr<LogitsConstraint> clone() const override {
    return std::make_shared<FourEvenTokens>(*this);
  }

 private:
  int64_t count_ = 0;
};

TEST_F(BeamEngine, EachBeamHasAConstraintOfItsOwnAndMayEndByItsText) {
  Engine engine(*tiny_.model, tiny_.specification.facts, {.type = at::kDouble});
  Request request{.prompt = prompt_of(5, 1), .max_new_tokens = 30, .beams = {.width = 3}};
  std::vector<BeamText> of_constraint, by_text;
  request.constraint = std::make_shared<FourEvenTokens>();
  request.on_beams = [&](const auto& texts) { of_constraint = texts; };
  engine.submit(request);
  request.constraint.reset();
  request.ends_beam = [](std::span<const int32_t> text) { return text.size() == 6; };
  request.on_beams = [&](const auto& texts) { by_text = texts; };
  engine.submit(request);
  engine.drain();
  ASSERT_EQ(of_constraint.size(), 3);
  for (const BeamText& text : of_constraint) {
    EXPECT_EQ(text.reason, FinishReason::stop);
    EXPECT_THAT(numbers_of(text.tokens), testing::SizeIs(4));
    for (const int32_t token : numbers_of(text.tokens)) EXPECT_EQ(token % 2, 0);
  }
  ASSERT_EQ(by_text.size(), 3);
  for (const BeamText& text : by_text) EXPECT_THAT(text.tokens, testing::SizeIs(6));
}

// Checking whether a text is complete may be slow: only texts that would continue or end are
// checked, best first.
TEST(BeamSearch, AsksOnlyOfTextsThatMatter) {
  BeamSearch search({.width = 2}, {9}, 4);
  const auto asked = [&](const std::vector<std::vector<double>>& logprobs, int32_t complete) {
    std::vector<std::vector<BeamSearch::Candidate>> candidates;
    for (const auto& of_beam : logprobs) {
      auto& likely = candidates.emplace_back();
      for (const double logprob : of_beam) {
        likely.push_back({{.token = static_cast<int32_t>(likely.size())}, logprob});
      }
    }
    Tokens tokens;
    search.advance(candidates, [&](const BeamSearch::Continuation& continuation) {
      tokens.push_back(continuation.token.token);
      return continuation.token.token == complete;
    });
    return tokens;
  };
  EXPECT_THAT(asked({{-1, -2, -3, -4}}, -1), testing::ElementsAre(0, 1));
  EXPECT_THAT(asked({{-1, -2, -6, -7}, {-1, -2, -3, -4}}, 1), testing::ElementsAre(0, 1, 0));
  EXPECT_THAT(asked({{-1, -2, -6, -7}, {-5, -6, -7, -8}}, 0), testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(asked({{-1, -2, -3, -4}, {-5, -6, -7, -8}}, -1), testing::ElementsAre(0, 1));
}

TEST_F(BeamEngine, ACancelledSearchLeavesNoPage) {
  Engine engine(*tiny_.model, tiny_.specification.facts, {.type = at::kDouble});
  Request request{.prompt = prompt_of(5, 1), .max_new_tokens = 30, .beams = {.width = 4}};
  int64_t asked = 0, ended = 0;
  RequestId id = 0;
  request.ends_beam = [&](std::span<const int32_t> text) {
    if (++asked == 20) engine.cancel(id);
    return text.empty();
  };
  request.on_finish = [&](FinishReason reason, const Usage&, const std::string&) {
    ended += reason == FinishReason::cancelled ? 1 : 100;
  };
  id = 1;
  ASSERT_EQ(engine.submit(request), id);
  engine.drain();
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(engine.statistics().pages_in_use, 0);
  EXPECT_EQ(engine.statistics().running + engine.statistics().waiting, 0);
}

TEST_F(BeamEngine, RefusesWhatCannotBe) {
  Engine engine(*tiny_.model, tiny_.specification.facts, {.max_num_seqs = 4, .type = at::kDouble});
  const auto refused = [&](const Request& request, const char* word) {
    try {
      engine.submit(request);
      ADD_FAILURE() << word << " was accepted";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(word));
    }
  };
  refused({.prompt = {1}, .beams = {.width = 5}}, "--num-beams=5");
  refused({.prompt = {1}, .beams = {.width = 0}}, "--num-beams=0");
  refused({.prompt = {1}, .sampling = {.top_k = 3}, .beams = {.width = 2}}, "--top-k");
  refused({.prompt = {1}, .max_new_tokens = 0, .beams = {.width = 2}}, "--max-new-tokens=0");
  refused({.prompt = {1}, .beams = {.width = 2, .length_penalty = NAN}}, "--length-penalty");
}

}  // namespace
}  // namespace colossal::serve
