// Rules as the engine applies them: masks, and reasoning before the rule holds.
#include "colossal/server/text_constraint.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "tests/support/temporary_directory.h"
#include "tests/text/small_tokenizer.h"

namespace colossal::server {
namespace {

constexpr int64_t kNumTokens = 300;
constexpr int32_t kEndToken = 265, kThink = 266, kThinkEnd = 267;

class TextConstraintTest : public testing::Test {
 protected:
  TextConstraintTest() {
    auto tokenizer = text::small_tokenizer();
    for (const char* content : {"<think>", "</think>"}) {
      tokenizer["added_tokens"].push_back({{"id", 265 + tokenizer["added_tokens"].size()},
                                           {"content", content},
                                           {"special", false},
                                           {"normalized", false},
                                           {"single_word", false},
                                           {"lstrip", false},
                                           {"rstrip", false}});
    }
    folder_.write("tokenizer.json", tokenizer.dump());
    folder_.write("chat_template.jinja", "{{ messages[0].content.split('</think>')[-1] }}<think>");
    model_ = std::make_unique<ServedModel>(folder_.path(), "small", /*max_length=*/200, kNumTokens);
  }

  std::shared_ptr<CompiledRule> compile(const char* expression) {
    const auto requested = rules_.find({TextRule::Kind::regular_expression, expression}, *model_);
    requested->wait();
    return requested->get("regex");
  }

  TextConstraint constraint(const char* expression, text::AnswerBegin begin,
                            bool reasoning = true) {
    return {compile(expression), rules_, *model_, {kEndToken}, begin, reasoning};
  }

  // Returns the tokens that may come next.
  static std::set<int32_t> allowed(TextConstraint& constraint) {
    while (!constraint.ready()) std::this_thread::yield();
    at::Tensor logits = at::zeros({kNumTokens}, at::kDouble);
    constraint.apply(logits);
    std::set<int32_t> tokens;
    for (int32_t token = 0; token < kNumTokens; ++token) {
      if (logits[token].item<double>() == 0) tokens.insert(token);
    }
    return tokens;
  }

  test::TemporaryDirectory folder_;
  std::unique_ptr<ServedModel> model_;
  RuleCache rules_;
};

TEST_F(TextConstraintTest, MasksAllowTheTokensThatLeadOn) {
  TextConstraint rule = constraint("he(llo)?x*", text::AnswerBegin::anywhere, /*reasoning=*/false);
  EXPECT_EQ(allowed(rule), (std::set<int32_t>{'h', 256, 258, 259}));  // h, he, hell, hello
  rule.accept(256);
  EXPECT_EQ(allowed(rule), (std::set<int32_t>{'l', 'x', 257, kEndToken}));
  const auto copy = rule.clone();
  rule.accept(257);
  EXPECT_EQ(allowed(rule), std::set<int32_t>{'o'});
  copy->accept('x');
  EXPECT_FALSE(copy->finished());
  TextConstraint whole = constraint("he", text::AnswerBegin::anywhere, false);
  whole.accept(256);
  EXPECT_TRUE(whole.finished());
}

TEST_F(TextConstraintTest, TheRuleHoldsFromTheEndOfTheReasoningOn) {
  ASSERT_EQ(model_->reasoning_token(), kThink);
  const std::set<int32_t> first{'h', 256};
  // The model may reason, or not.
  TextConstraint free = constraint("he", text::AnswerBegin::anywhere);
  std::set<int32_t> with_reasoning = first;
  with_reasoning.insert(kThink);
  EXPECT_EQ(allowed(free), with_reasoning);
  TextConstraint without = free;
  without.accept(256);
  EXPECT_TRUE(without.finished());
  free.accept(kThink);
  EXPECT_EQ(allowed(free).size(), static_cast<size_t>(kNumTokens) - 1);  // all but the end
  EXPECT_FALSE(allowed(free).contains(kEndToken));
  free.accept('x');
  free.accept(kThinkEnd);
  EXPECT_EQ(allowed(free), first);
  // The prompt has begun, or ended, the reasoning. The marker may come in several tokens.
  TextConstraint begun = constraint("he", text::AnswerBegin::in_reasoning);
  for (const char letter : std::string("a</think>")) begun.accept(letter);
  EXPECT_EQ(allowed(begun), first);
  TextConstraint ended = constraint("he", text::AnswerBegin::after_reasoning);
  EXPECT_EQ(allowed(ended), first);
}

TEST_F(TextConstraintTest, RefusedRulesNameTheField) {
  const auto requested = rules_.find({TextRule::Kind::regular_expression, "(?=a)"}, *model_);
  requested->wait();
  try {
    requested->get("guided_regex");
    ADD_FAILURE() << "accepted";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
  }
  // The same rule is compiled once.
  EXPECT_EQ(rules_.find({TextRule::Kind::regular_expression, "(?=a)"}, *model_), requested);
}

// Masks that together take more bytes than there is room for are made again.
TEST_F(TextConstraintTest, ARuleThatForgetsItsMasksGoesOn) {
  const auto bytes = std::make_shared<RuleBytes>();
  const auto tokens = std::make_shared<SortedTokens>();
  for (int32_t byte = 0; byte < 256; ++byte) {
    tokens->emplace_back(std::string(1, static_cast<char>(byte)), byte);
  }
  CompiledRule rule({TextRule::Kind::regular_expression, "(ab)*"}, tokens, 256, bytes);
  CompiledRule::Place place = rule.start();
  bytes->add(RuleBytes::kMost);
  for (int i = 0; i < 20; ++i) {
    const auto mask = rule.mask(place);
    EXPECT_TRUE(mask->allows("ab"[i % 2]));
    EXPECT_FALSE(mask->allows("ba"[i % 2]));
    place = rule.next(place, i % 2 == 0 ? "a" : "b");
  }
  EXPECT_TRUE(rule.may_end(place));
}

}  // namespace
}  // namespace colossal::server
