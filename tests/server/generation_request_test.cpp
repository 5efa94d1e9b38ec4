#include "colossal/server/generation_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"
#include "tests/text/small_tokenizer.h"

namespace colossal::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kLongest = 20, kVocabulary = 300;
constexpr int32_t kEnd = 265;

class GenerationRequestTest : public testing::Test {
 protected:
  GenerationRequestTest() {
    folder_.write("tokenizer.json", text::small_tokenizer().dump());
    folder_.write("generation_config.json", R"({"temperature": 0.5, "top_k": 7})");
    folder_.write("chat_template.jinja",
                  "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}");
    model_ = std::make_unique<ServedModel>(
        folder_.path(), "small", kLongest, kVocabulary, /*causal=*/true, std::nullopt,
        serve::read_generation_settings(folder_.path(), kVocabulary));
  }

  GenerationRequest text(const char* json) {
    return read_completion_request(parse_body(json), *model_, rules_);
  }
  GenerationRequest chat(const char* json) {
    return read_chat_request(parse_body(json), *model_, rules_);
  }

  template <class Read>
  std::string refusal(Read read, int status = 400) {
    try {
      read();
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, status);
      return error.what();
    }
    return "none";
  }
  std::string text_refusal(const char* json, int status = 400) {
    return refusal([&] { text(json); }, status);
  }

  test::TemporaryDirectory folder_;
  std::unique_ptr<ServedModel> model_;
  RuleCache rules_;
};

TEST_F(GenerationRequestTest, DefaultsAreTheModels) {
  const GenerationRequest request = text(R"({"prompt": "hello"})");
  ASSERT_EQ(request.prompts.size(), 1u);
  EXPECT_THAT(request.prompts[0].tokens, ElementsAre(259));
  EXPECT_EQ(request.max_new_tokens, 16);
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_k, 7);
  EXPECT_THAT(request.end_tokens, ElementsAre(kEnd));
  EXPECT_EQ(request.logprobs, -1);
}

TEST_F(GenerationRequestTest, TheRequestWins) {
  const GenerationRequest request = text(
      R"({"prompt": [72, 73], "temperature": 0, "top_k": -1, "seed": -1, "stop": ["a"], "n": 2,
          "ignore_eos": true, "stop_token_ids": [5], "logit_bias": {"7": -3}, "max_tokens": 4,
          "logprobs": 2, "stream": true, "stream_options": {"include_usage": true}, "user": "u"})");
  EXPECT_EQ(request.sampling.temperature, 0);
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_EQ(request.sampling.seed, UINT64_MAX);
  EXPECT_THAT(request.end_tokens, ElementsAre(5));
  EXPECT_THAT(request.sampling.logit_bias, ElementsAre(std::pair<int32_t, double>(7, -3)));
  EXPECT_TRUE(request.stream && request.include_usage);
  EXPECT_THAT(request.unknown_fields, IsEmpty());
}

TEST_F(GenerationRequestTest, PromptsInFourForms) {
  EXPECT_EQ(text(R"({"prompt": ["a", "b"]})").prompts.size(), 2u);
  EXPECT_EQ(text(R"({"prompt": [1, 2]})").prompts.size(), 1u);
  EXPECT_EQ(text(R"({"prompt": [[1, 2], [3]]})").prompts[1].tokens, std::vector<int32_t>{3});
  EXPECT_THAT(text_refusal(R"({"prompt": 3})"), HasSubstr("a string, a list"));
  EXPECT_THAT(text_refusal(R"({"prompt": []})"), HasSubstr("a string, a list"));
  EXPECT_THAT(text_refusal(R"({"prompt": [1, "a"]})"), HasSubstr("number of a token"));
  EXPECT_THAT(text_refusal(R"({"prompt": [-1]})"), HasSubstr("number of a token"));
  EXPECT_THAT(text_refusal(R"({"prompt": [300]})"), HasSubstr("vocabulary of 300"));
}

TEST_F(GenerationRequestTest, LengthsAreWithinTheModels) {
  EXPECT_EQ(text(R"({"prompt": [1], "max_tokens": 19})").max_new_tokens, 19);
  EXPECT_THAT(text_refusal(R"({"prompt": [1], "max_tokens": 20})"),
              HasSubstr("maximum context length is 20 tokens"));
  EXPECT_THAT(text_refusal(R"({"prompt": [1], "max_tokens": 0})"), HasSubstr("must be from 1"));
  EXPECT_EQ(text(R"({"prompt": [1], "max_tokens": 0, "echo": true})").max_new_tokens, 0);
  const std::string many = R"({"prompt": ")" + std::string(kLongest * 8 + 1, 'x') + "\"}";
  EXPECT_THAT(text_refusal(many.c_str()), HasSubstr("161 bytes"));
  const auto cut = text(R"({"prompt": [1, 2, 3], "truncate_prompt_tokens": 2})");
  EXPECT_THAT(cut.prompts[0].tokens, ElementsAre(2, 3));
  // Without max_tokens, as many as there is room for, but at most 16.
  const std::string ten = R"({"prompt": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])";
  EXPECT_EQ(text((ten + "}").c_str()).max_new_tokens, 10);
  EXPECT_THAT(text_refusal((ten + R"(, "max_tokens": 11})").c_str()), HasSubstr("11 more"));
  const GenerationRequest limited = read_completion_request(
      parse_body(ten + R"(, "max_tokens": 11})"), *model_, rules_, TokenLimit::at_most);
  EXPECT_EQ(limited.max_new_tokens, 10);
}

TEST_F(GenerationRequestTest, LongTextsAreCutBeforeTheyAreTokenized) {
  const std::string words(kLongest * 100, 'x');
  const std::string field = R"(", "truncate_prompt_tokens": 3})";
  EXPECT_EQ(text((R"({"prompt": ")" + words + field).c_str()).prompts[0].tokens.size(), 3u);
  EXPECT_EQ(chat((R"({"messages": [{"role": "user", "content": ")" + words + R"("}], )" +
                  R"("truncate_prompt_tokens": 3})")
                     .c_str())
                .prompts[0]
                .tokens.size(),
            3u);
  // A cut between the bytes of a character leaves the character out.
  const std::string accents = [&] {
    std::string all;
    for (int i = 0; i < kLongest * 100; ++i) all += i % 3 == 0 ? "x" : "é";
    return all;
  }();
  EXPECT_EQ(text((R"({"prompt": ")" + accents + field).c_str()).prompts[0].tokens.size(), 3u);
  std::vector<int> many(kLongest * 3, 1);
  EXPECT_EQ(text(Json{{"prompt", many}, {"truncate_prompt_tokens", -1}}.dump().c_str())
                .prompts[0]
                .tokens.size(),
            static_cast<size_t>(kLongest - 1));
}

TEST_F(GenerationRequestTest, ASpecialTokenStopsAsAToken) {
  const GenerationRequest request =
      text(R"({"prompt": [1], "ignore_eos": true, "stop": ["x", "<|endoftext|>"]})");
  EXPECT_THAT(request.end_tokens, ElementsAre(kEnd));
}

TEST_F(GenerationRequestTest, OllamasTagIsNotPartOfTheName) {
  EXPECT_EQ(text(R"({"model": "small:latest", "prompt": [1]})").model, "small");
}

TEST_F(GenerationRequestTest, WhatIsNotSupportedIsRefusedByName) {
  for (const char* field :
       {R"("suffix": "x")", R"("length_penalty": 2)", R"("early_stopping": "never")",
        R"("best_of": 2, "n": 3)", R"("best_of": 1, "use_beam_search": true)",
        R"("top_p": 0.5, "best_of": 4, "use_beam_search": true)",
        R"("temperature": 0.5, "best_of": 4, "use_beam_search": true)",
        R"("early_stopping": 1, "best_of": 4, "use_beam_search": true)",
        R"("response_format": {"type": "grammar"})", R"("structured_outputs": {"lark": "x"})",
        R"("prompt_logprobs": 21)"}) {
    const std::string name(field + 1, std::string(field + 1).find('"'));
    EXPECT_THAT(text_refusal(fmt::format(R"({{"prompt": "a", {}}})", field).c_str()),
                HasSubstr(name));
  }
  EXPECT_EQ(text(R"({"prompt": "a", "suffix": null, "response_format": {"type": "text"}})").n, 1);
}

TEST_F(GenerationRequestTest, FieldsOfGenerationConfigReplaceTheModels) {
  const GenerationRequest request = text(
      R"({"prompt": "a", "no_repeat_ngram_size": 3, "suppress_tokens": [5], "min_length": 4,
          "bad_words": ["two tokens"]})");
  EXPECT_EQ(request.sampling.no_repeat_ngram_size, 3);
  EXPECT_THAT(request.sampling.suppress_tokens, ElementsAre(5));
  EXPECT_EQ(request.sampling.min_length, 4);
  ASSERT_EQ(request.sampling.bad_words.size(), 1);
  EXPECT_GT(request.sampling.bad_words[0].size(), 1);
  EXPECT_EQ(request.sampling.top_k, 7);
  EXPECT_TRUE(request.unknown_fields.empty());
  EXPECT_THAT(text_refusal(R"({"prompt": "a", "suppress_tokens": [300]})"),
              HasSubstr("suppress_tokens = [300]"));
}

TEST_F(GenerationRequestTest, ALengthOfTheModelLimitsAnswersUnlessTheRequestSaysMore) {
  folder_.write("generation_config.json", R"({"max_length": 9, "num_beams": 3})");
  const ServedModel model(folder_.path(), "small", kLongest, kVocabulary, /*causal=*/true,
                          std::nullopt,
                          serve::read_generation_settings(folder_.path(), kVocabulary));
  const auto read = [&](const char* json) {
    return read_completion_request(parse_body(json), model, rules_);
  };
  EXPECT_EQ(read(R"({"prompt": [1]})").max_length, 9);
  EXPECT_EQ(read(R"({"prompt": [1]})").beams.width, 3);
  EXPECT_EQ(read(R"({"prompt": [1], "max_tokens": 12})").max_length, 0);
  EXPECT_EQ(read(R"({"prompt": [1], "n": 4})").beams.width, 4);
  EXPECT_EQ(read(R"({"prompt": [1], "temperature": 0})").beams.width, 3);
  EXPECT_EQ(read(R"({"prompt": [1], "temperature": 0.5})").beams.width, 1);
  EXPECT_EQ(read(R"({"prompt": [1], "use_beam_search": false})").beams.width, 1);
}

TEST_F(GenerationRequestTest, BeamSearchIsAsWideAsBestOf) {
  const GenerationRequest request = text(
      R"({"prompt": "a", "use_beam_search": true, "n": 2, "best_of": 5, "length_penalty": -0.5,
          "early_stopping": true})");
  EXPECT_EQ(request.beams.width, 5);
  EXPECT_EQ(request.beams.length_penalty, -0.5);
  EXPECT_EQ(request.beams.early_stopping, serve::EarlyStopping::at_width);
  EXPECT_EQ(request.best_of, 2);
  EXPECT_EQ(request.sampling.temperature, 0);
  EXPECT_EQ(chat(R"({"messages": [{"role": "user", "content": "hi"}], "use_beam_search": true,
                     "n": 3, "early_stopping": "never"})")
                .beams.width,
            3);
}

TEST_F(GenerationRequestTest, AnotherModelIsNotFound) {
  EXPECT_THAT(text_refusal(R"({"model": "other", "prompt": "a"})", 404), HasSubstr("\"small\""));
}

TEST_F(GenerationRequestTest, ChatsFollowTheTemplate) {
  const GenerationRequest request = chat(R"({"messages": [{"role": "user", "content": "hi"}]})");
  EXPECT_EQ(model_->tokenizer().decode(request.prompts[0].tokens), "user:hi;");
  EXPECT_EQ(request.max_new_tokens, kLongest - 8);  // as many tokens as there is room for
  EXPECT_EQ(chat(R"({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3,
                     "max_completion_tokens": 2})")
                .max_new_tokens,
            2);
  EXPECT_THAT(refusal([&] { chat(R"({"messages": [{"role": "user"}, 3]})"); }),
              HasSubstr("\"role\" and \"content\""));
  EXPECT_THAT(refusal([&] { chat(R"({"messages": []})"); }), HasSubstr("a list of messages"));
}

TEST_F(GenerationRequestTest, DevelopersSpeakAsTheSystem) {
  const auto body = R"({"messages": [{"role": "developer", "content": "hi"}]})";
  EXPECT_EQ(model_->tokenizer().decode(chat(body).prompts[0].tokens), "system:hi;");
  folder_.write("chat_template.jinja",
                "{% for m in messages %}{% if m.role == 'developer' %}D{% endif %}{% endfor %}");
  const ServedModel knows(folder_.path(), "small", kLongest, kVocabulary);
  const GenerationRequest request = read_chat_request(parse_body(body), knows, rules_);
  EXPECT_EQ(knows.tokenizer().decode(request.prompts[0].tokens), "D");
}

TEST_F(GenerationRequestTest, SpecialTokensOfUsersAreText) {
  const auto tokens =
      chat(R"({"messages": [{"role": "a", "content": "<|endoftext|>"}]})").prompts[0].tokens;
  EXPECT_EQ(std::ranges::count(tokens, kEnd), 0);
  EXPECT_EQ(model_->tokenizer().decode(tokens), "a:<|endoftext|>;");
}

// A field that asks for a constraint sets one, or is refused.
TEST_F(GenerationRequestTest, FieldsThatAskForAConstraintSetOne) {
  const auto refusal_of = [&](const std::string& field) {
    return refusal([&] {
      const GenerationRequest request = text(("{\"prompt\": \"a\", " + field + "}").c_str());
      if (!request.rule) return;
      request.rule->wait();
      request.rule->get(request.rule_field);
    });
  };
  for (const char* field :
       {R"("guided_json": {"type": "null"})", R"("guided_json": "{\"type\": \"null\"}")",
        R"("guided_regex": "a+")", R"("guided_choice": ["a", "b"])",
        R"("guided_grammar": "root ::= \"a\"")", R"("guided_json_object": true)",
        R"("structured_outputs": {"json_object": true, "regex": null})",
        R"("structured_outputs": {"choice": ["a"], "disable_any_whitespace": true})",
        R"("response_format": {"type": "json_object", "schema": {"type": "object"}})"}) {
    SCOPED_TRACE(field);
    EXPECT_EQ(refusal_of(field), "none");
    EXPECT_TRUE(text((std::string("{\"prompt\": \"a\", ") + field + "}").c_str()).rule);
  }
  for (const auto& [field, what] : std::vector<std::pair<std::string, std::string>>{
           {R"("allowed_token_ids": [])", "allowed_token_ids"},
           {R"("stop": "")", "stop"},
           {R"("stop": ["a", ""])", "stop"},
           {R"("guided_json": 1)", "guided_json"},
           {R"("guided_choice": [])", "guided_choice"},
           {R"("guided_choice": [1])", "guided_choice"},
           {R"("guided_json": {"type": "string", "format": "no-such"})", "\"format\""},
           {R"("guided_json": {"not": {}})", "\"not\""},
           {R"_("guided_regex": "(?=a)")_", "(?="},
           {R"("guided_regex": "a", "guided_choice": ["a"])",
            "guided_choice does not work together"},
           {R"("guided_whitespace_pattern": " ")", "structured_outputs"},
           {R"("format": "json")", "response_format"},
           {R"("grammar": "root ::= \"a\"")", "structured_outputs"},
           {R"("structured_outputs": {"structural_tag": {}})", "structured_outputs"},
           {R"("response_format": {"type": "regex"})", "response_format"}}) {
    EXPECT_THAT(refusal_of(field), HasSubstr(what)) << field;
  }
}

TEST_F(GenerationRequestTest, OlderFunctionsAreTools) {
  const GenerationRequest request = chat(R"({"messages": [{"role": "user", "content": "a"}],
      "functions": [{"name": "f", "parameters": {"type": "object"}}], "function_call": {"name": "f"}})");
  EXPECT_TRUE(request.tools.are_functions);
  EXPECT_EQ(request.tools.choice, ToolRequest::Choice::named);
  EXPECT_EQ(request.tools.name, "f");
  EXPECT_FALSE(request.tools.parallel);
  EXPECT_TRUE(request.rule);
  for (const char* field : {R"("functions": [], "tools": [])", R"("functions": [{}])",
                            R"("functions": 1)", R"("function_call": {"name": "f"})"}) {
    EXPECT_THAT(
        refusal([&] {
          chat((std::string(R"({"messages": [{"role": "user", "content": "a"}], )") + field + "}")
                   .c_str());
        }),
        testing::AnyOf(HasSubstr("functions"), HasSubstr("tools")))
        << field;
  }
}

}  // namespace
}  // namespace colossal::server
