#include "colossal/tune/samples/samples.h"

#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "colossal/base/error.h"
#include "colossal/data/text_batch.h"
#include "colossal/tune/samples/collate.h"
#include "tests/support/temporary_directory.h"

namespace colossal::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Reading {
  test::TemporaryDirectory directory{test::Storage::memory};
  std::unique_ptr<text::Tokenizer> tokenizer = text::make_tokenizer("bytes");

  Samples read(const std::string& lines, SampleKind kind, SampleOptions options = {}) const {
    options.setting = "data.train";
    options.kind = kind;
    return read_samples({directory.write("lines.jsonl", lines)}, *tokenizer, options);
  }
  std::string refusal(const std::string& lines, SampleKind kind, SampleOptions options = {}) const {
    try {
      read(lines, kind, std::move(options));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "not refused";
  }
};

constexpr int32_t kEnd = 256;

TEST(Samples, LearnCompletionsOnly) {
  const Reading reading;
  const Samples found = reading.read(R"({"prompt": "ab", "completion": "cd", "more": 1})"
                                     "\n\n"
                                     R"({"text": "xy"})",
                                     SampleKind::language_modeling);
  ASSERT_EQ(found.samples.size(), 2u);
  const Row& first = found.samples[0].rows[0];
  EXPECT_THAT(first.tokens, ElementsAre('a', 'b', 'c', 'd', kEnd));
  EXPECT_THAT(first.learned, ElementsAre(0, 0, 1, 1, 1));
  EXPECT_EQ(first.prompt_tokens, 2);
  EXPECT_THAT(found.samples[1].rows[0].learned, ElementsAre(1, 1, 1));
  const Samples all = reading.read(R"({"prompt": "ab", "completion": "cd"})",
                                   SampleKind::language_modeling, {.completion_only = false});
  EXPECT_THAT(all.samples[0].rows[0].learned, ElementsAre(1, 1, 1, 1, 1));
}

// Whatever the format, rows have the same fields; null counts as missing.
TEST(Samples, AreRowsOfAnyFormat) {
  const Reading reading;
  const auto read = [&](const std::string& name, const std::string& content, SampleKind kind) {
    const SampleOptions options{.setting = "data.train", .kind = kind};
    return read_samples({reading.directory.write(name, content)}, *reading.tokenizer, options);
  };
  const Samples lines = reading.read(R"({"prompt": "ab", "completion": "1", "label": false}
{"prompt": "c\nd", "completion": "2", "label": true})",
                                     SampleKind::unpaired);
  const std::pair<const char*, const char*> contents[] = {
      {"a.json", R"([{"prompt": "ab", "completion": "1", "label": false, "margin": null},
 {"prompt": "c\nd", "completion": "2", "label": true}])"},
      {"a.csv", "prompt,completion,label\nab,1,False\n\"c\nd\",2,true\n"},
      {"a.tsv", "label\tprompt\tcompletion\n0\tab\t1\n1\t\"c\nd\"\t2\n"},
      {"lines",
       "{\"prompt\": \"ab\", \"completion\": \"1\", \"label\": false}\n"
       "{\"prompt\": \"c\\nd\", \"completion\": \"2\", \"label\": true}\n"}};
  for (const auto& [name, content] : contents) {
    EXPECT_EQ(read(name, content, SampleKind::unpaired).samples, lines.samples) << name;
  }
  // Alpaca's columns, of which one is empty.
  const Samples found =
      read("b.csv", "instruction,input,output\na,,c\n", SampleKind::language_modeling);
  EXPECT_THAT(found.samples[0].rows[0].tokens, ElementsAre('a', '\n', 'c', kEnd));
}

TEST(Samples, TheFormatCanBeGiven) {
  const Reading reading;
  SampleOptions options{.setting = "data.train", .format = data::FileFormat::csv};
  const std::string path = reading.directory.write("data.txt", "text\nabc\n");
  EXPECT_EQ(read_samples({path}, *reading.tokenizer, options).samples.size(), 1u);
  options.format = data::FileFormat::text;
  EXPECT_THROW(read_samples({path}, *reading.tokenizer, options), ConfigError);
}

TEST(Samples, TakeTheTokensBeforeATextThatAreAsked) {
  const Reading reading;
  const Samples found = reading.read(R"({"prompt": "a", "completion": "b"})",
                                     SampleKind::language_modeling, {.before_text = {{7, 8}}});
  EXPECT_THAT(found.samples[0].rows[0].tokens, ElementsAre(7, 8, 'a', 'b', kEnd));
  EXPECT_EQ(found.samples[0].rows[0].prompt_tokens, 3);
}

TEST(Samples, TakeInstructions) {
  const Samples found = Reading().read(R"({"instruction": "a", "input": "b", "output": "c"})",
                                       SampleKind::language_modeling);
  EXPECT_THAT(found.samples[0].rows[0].tokens, ElementsAre('a', '\n', 'b', '\n', 'c', kEnd));
  EXPECT_THAT(found.samples[0].rows[0].learned, ElementsAre(0, 0, 0, 0, 1, 1));
}

TEST(Samples, FindThePromptThatBothCompletionsBeginWith) {
  const Samples found =
      Reading().read(R"({"chosen": "a b cd", "rejected": "a b ce"})"
                     "\n"
                     R"({"prompt": "q", "chosen": "y", "rejected": "n", "margin": 2})",
                     SampleKind::preference);
  const Row &chosen = found.samples[0].rows[0], &rejected = found.samples[0].rows[1];
  EXPECT_THAT(chosen.tokens, ElementsAre('a', ' ', 'b', ' ', 'c', 'd', kEnd));
  EXPECT_EQ(chosen.prompt_tokens, 5);
  EXPECT_EQ(rejected.prompt_tokens, 5);
  EXPECT_EQ(found.samples[1].margin, 2);
}

SampleOptions with_template() {
  return {.chat_template = std::make_shared<const text::ChatTemplate>(
              "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}"
              "{{ m.content }};{% endgeneration %}{% else %}{{ m.content }};{% endif %}{% endfor %}"
              "{% if add_generation_prompt %}<assistant>{% endif %}")};
}

std::string text_of(const Row& row, bool learned_only = false) {
  std::string text;
  for (size_t i = 0; i < row.tokens.size(); ++i) {
    if (!learned_only || row.learned[i]) text += static_cast<char>(row.tokens[i]);
  }
  return text;
}

constexpr const char* kConversation =
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "é"},)"
    R"( {"from": "human", "value": "c"}, {"from": "gpt", "value": "d"}]})";

TEST(Samples, OfConversationsAreWhatTheTemplateSays) {
  const Reading reading;
  const Row all = reading.read(kConversation, SampleKind::language_modeling, with_template())
                      .samples[0]
                      .rows[0];
  EXPECT_EQ(text_of(all), "<user>a;<assistant>é;<user>c;<assistant>d;");
  EXPECT_EQ(text_of(all, true), text_of(all));
  SampleOptions options = with_template();
  options.assistant_only = true;
  const Row some =
      reading.read(kConversation, SampleKind::language_modeling, options).samples[0].rows[0];
  EXPECT_EQ(text_of(some, true), "é;d;");
}

// Templates know the roles of OpenAI's messages, and most leave out what has another role.
TEST(Samples, OfShareGptHaveCallsAndToolsAnswers) {
  const SampleOptions options{
      .chat_template = std::make_shared<const text::ChatTemplate>(
          "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
          "{{ c.function.name }}({{ c.function.arguments | tojson }}){% endfor %}{% endfor %}")};
  const Reading reading;
  const auto text_with = [&](const std::string& call) {
    return text_of(reading
                       .read(R"({"conversations": [{"from": "human", "value": "area?"}, )"
                             R"({"from": "function_call", "value": )" +
                                 nlohmann::json(call).dump() +
                                 R"(}, {"from": "observation", "value": "15"}, )"
                                 R"({"from": "gpt", "value": "It is 15."}]})",
                             SampleKind::language_modeling, options)
                       .samples[0]
                       .rows[0]);
  };
  EXPECT_EQ(text_with(R"({"name": "area", "arguments": {"w": 5}})"),
            "<user>area?<assistant>area({\"w\": 5})<tool>15<assistant>It is 15.");
  EXPECT_EQ(text_with(R"([{"name": "a", "arguments": {}}, {"name": "b"}])"),
            "<user>area?<assistant>a({})b({})<tool>15<assistant>It is 15.");
  EXPECT_THAT(reading.refusal(R"({"conversations": [{"from": "function_call", "value": "area"}]})",
                              SampleKind::language_modeling, options),
              HasSubstr(R"(a call is "area", where {"name")"));
}

TEST(Samples, OfPairsOfConversationsBeginAlike) {
  const Samples found = Reading().read(
      R"({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "yes"}],)"
      R"( "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "no"}]})",
      SampleKind::preference, with_template());
  const Row &chosen = found.samples[0].rows[0], &rejected = found.samples[0].rows[1];
  EXPECT_EQ(text_of(chosen), "<user>q;<assistant>yes;");
  EXPECT_EQ(text_of(chosen, true), "yes;");
  EXPECT_EQ(text_of(rejected, true), "no;");
  EXPECT_EQ(chosen.prompt_tokens, rejected.prompt_tokens);
}

TEST(Samples, OfConversationsAreRefusedWithWhatWouldWork) {
  const Reading reading;
  EXPECT_THAT(reading.refusal(kConversation, SampleKind::language_modeling),
              HasSubstr("data.chat_template"));
  SampleOptions options = with_template();
  options.assistant_only = true;
  EXPECT_THAT(reading.refusal(R"({"messages": [{"role": "user", "content": "a"}]})",
                              SampleKind::language_modeling, options),
              HasSubstr("marks nothing of it with {% generation %}"));
  EXPECT_THAT(reading.refusal(R"({"text": "a"})", SampleKind::language_modeling, options),
              HasSubstr("is for conversations"));
  EXPECT_THAT(reading.refusal(R"({"messages": [{"content": "a"}]})", SampleKind::language_modeling,
                              with_template()),
              HasSubstr("where a message is expected"));
  options.max_length = 9;
  EXPECT_THAT(reading.refusal(kConversation, SampleKind::language_modeling, options),
              HasSubstr("nothing to learn in its first data.sequence_length = 9 tokens, after "
                        "which the assistant speaks"));
  options = {.chat_template = std::make_shared<const text::ChatTemplate>(
                 "{{ raise_exception('only one turn') }}")};
  EXPECT_THAT(reading.refusal(kConversation, SampleKind::language_modeling, options),
              HasSubstr("only one turn"));
}

TEST(Samples, LoseTheirEndWhereTheyAreTooLong) {
  const Samples found = Reading().read(R"({"prompt": "ab", "completion": "cdef"})",
                                       SampleKind::language_modeling, {.max_length = 4});
  EXPECT_EQ(found.truncated, 1);
  EXPECT_THAT(found.samples[0].rows[0].tokens, ElementsAre('a', 'b', 'c', 'd'));
}

TEST(Samples, RefuseLinesNamingThem) {
  const Reading reading;
  const auto expect = [&](const std::string& line, SampleKind kind, const std::string& reason,
                          SampleOptions options = {}) {
    const std::string message = reading.refusal("\n" + line, kind, std::move(options));
    EXPECT_THAT(message, HasSubstr("lines.jsonl:2: "));
    EXPECT_THAT(message, HasSubstr(reason));
    EXPECT_THAT(message, HasSubstr("data.invalid = \"skip\""));
  };
  const auto text = SampleKind::language_modeling, pairs = SampleKind::preference;
  expect("{", text, "the line");
  expect("[1]", text, "an object is expected");
  expect(R"({"txt": "a"})", text, R"(there is no "text" among its fields (txt))");
  expect(R"({"text": 1})", text, R"("text" is 1, where a text is expected)");
  expect(R"({"text": ""})", text, R"("text" is empty)");
  expect(R"({"prompt": "a"})", text, R"(there is no "completion")");
  expect(R"({"prompt": "a", "completion": ""})", text, R"("completion" is empty)");
  expect(R"({"prompt": "abcd", "completion": "e"})", text,
         "its prompt has 4 tokens, but a row has at most 4", {.max_length = 4});
  expect(R"({"prompt": "a", "chosen": "b"})", pairs, R"(there is no "rejected")");
  expect(R"({"chosen": "same", "rejected": "same"})", pairs, "chosen completion is empty");
  expect(R"({"prompt": "a", "chosen": "same", "rejected": "same"})", pairs,
         "its chosen and its rejected completion are the same, so there is nothing to prefer");
  expect(R"({"prompt": "a", "chosen": "same b", "rejected": "same c"})", pairs,
         "are the same within data.sequence_length = 5 tokens", {.max_length = 5});
  expect(R"({"prompt": "a", "chosen": "b", "rejected": "c", "margin": "x"})", pairs,
         R"("margin" is "x", where a number)");
  expect(R"({"prompt": "a", "completion": "b", "label": "yes"})", SampleKind::unpaired,
         "true or false is expected");
}

TEST(Samples, SkipAndCountLinesOnRequest) {
  const Reading reading;
  const Samples found =
      reading.read("{}\n{\"text\": \"a\"}\nnothing\n", SampleKind::language_modeling,
                   {.invalid = data::InvalidFiles::skip});
  EXPECT_EQ(found.samples.size(), 1u);
  EXPECT_EQ(found.skipped, 2);
  EXPECT_THAT(
      reading.refusal("{}\n", SampleKind::language_modeling, {.invalid = data::InvalidFiles::skip}),
      HasSubstr("no samples in 1 file"));
}

TEST(Samples, PackedRowsKeepTheirDocumentsApart) {
  const Samples found =
      Reading().read("{\"text\": \"abc\"}\n{\"text\": \"d\"}\n", SampleKind::language_modeling);
  const std::vector<Sample> packed = pack_samples(found.samples, 8, data::Packing::bfd);
  ASSERT_EQ(packed.size(), 1u);
  const Row& row = packed[0].rows[0];
  EXPECT_THAT(row.tokens, ElementsAre('a', 'b', 'c', kEnd, 'd', kEnd));
  EXPECT_THAT(row.learned, ElementsAre(0, 1, 1, 1, 0, 1));
  EXPECT_THAT(row.documents, ElementsAre(0, 0, 0, 0, 1, 1));
  EXPECT_THAT(row.positions, ElementsAre(0, 1, 2, 3, 0, 1));
  const std::vector<Sample> wrapped = pack_samples(found.samples, 4, data::Packing::wrapped);
  ASSERT_EQ(wrapped.size(), 2u);
  EXPECT_TRUE(wrapped[0].rows[0].documents.empty());
}

std::vector<int64_t> values_of(const at::Tensor& row) {
  return {row.const_data_ptr<int64_t>(), row.const_data_ptr<int64_t>() + row.numel()};
}

TEST(Samples, OfEncoderDecodersHaveSources) {
  const Reading reading;
  const SampleOptions options{.max_length = 5, .decoder_start_token = 9};
  const Samples found = reading.read(R"({"prompt": "ab", "completion": "cd"})"
                                     "\n"
                                     R"({"prompt": "abcdefg", "completion": "uvwxyz"})",
                                     SampleKind::language_modeling, options);
  const Row& row = found.samples[0].rows[0];
  EXPECT_THAT(row.source, ElementsAre('a', 'b'));
  EXPECT_THAT(row.tokens, ElementsAre(9, 'c', 'd', kEnd));
  EXPECT_THAT(row.learned, ElementsAre(0, 1, 1, 1));
  EXPECT_EQ(row.prompt_tokens, 1);
  EXPECT_EQ(found.truncated, 2);
  const Row& cut = found.samples[1].rows[0];
  EXPECT_THAT(cut.source, ElementsAre('a', 'b', 'c', 'd', 'e'));
  EXPECT_THAT(cut.tokens, ElementsAre(9, 'u', 'v', 'w', 'x'));

  const data::Batch batch = collate({&row, &cut}, {3, 4}, kEnd, 1);
  const auto source = batch.at(data::kSource)[0];
  const auto documents = batch.at(data::kSourceDocuments);
  EXPECT_TRUE(at::equal(source, at::tensor({97, 98, 256, 256, 256}, at::kLong)));
  EXPECT_TRUE(at::equal(documents[0], at::tensor({0, 0, -1, -1, -1}, at::kLong)));
  EXPECT_TRUE(documents[1].eq(0).all().item<bool>());
  EXPECT_TRUE(
      at::equal(batch.at(data::kTokens)[0], at::tensor({9, 'c' + 0, 'd' + 0, 256}, at::kLong)));
  EXPECT_TRUE(
      at::equal(batch.at(data::kLabels)[0], at::tensor({'c' + 0, 'd' + 0, 256, -100}, at::kLong)));

  EXPECT_THAT(reading.refusal(R"({"text": "xy"})", SampleKind::language_modeling, options),
              HasSubstr("has no prompt"));
  EXPECT_THAT(reading.refusal(R"({"prompt": [{"role": "user", "content": "x"}],
                                  "completion": [{"role": "assistant", "content": "y"}]})",
                              SampleKind::language_modeling, options),
              HasSubstr("lines.jsonl"));
}

TEST(Collate, FillsShorterRows) {
  const Row longer{.tokens = {1, 2, 3, 4}, .learned = {0, 0, 1, 1}, .prompt_tokens = 2};
  const Row shorter{.tokens = {5, 6}, .learned = {0, 1}, .prompt_tokens = 1};
  const data::Batch batch = collate({&longer, &shorter}, {7, 8}, /*padding=*/9, /*min_length=*/1);
  EXPECT_THAT(values_of(batch.at(data::kTokens)[0]), ElementsAre(1, 2, 3));
  EXPECT_THAT(values_of(batch.at(data::kLabels)[0]), ElementsAre(-100, 3, 4));
  EXPECT_THAT(values_of(batch.at(data::kTokens)[1]), ElementsAre(5, 9, 9));
  EXPECT_THAT(values_of(batch.at(data::kLabels)[1]), ElementsAre(6, -100, -100));
  EXPECT_EQ(batch.units, 4);
  EXPECT_EQ(collate({&shorter}, {0}, 9, /*min_length=*/4).at(data::kTokens).size(1), 4);
  EXPECT_EQ(collate({}, {}, 9, 1).rows(), 0);
}

TEST(Collate, GivesWhatFillsAPackedRowADocumentOfItsOwn) {
  const Row packed{.tokens = {1, 2, 3, 4},
                   .learned = {0, 1, 0, 1},
                   .documents = {0, 0, 1, 1},
                   .positions = {0, 1, 0, 1}};
  const Row whole{.tokens = {1, 2, 3}, .learned = {1, 1, 1}};
  const data::Batch batch = collate({&packed, &whole}, {0, 1}, 9, 5);
  EXPECT_THAT(values_of(batch.at(data::kDocuments)[0]), ElementsAre(0, 0, 1, 2, 2));
  EXPECT_THAT(values_of(batch.at(data::kPositions)[0]), ElementsAre(0, 1, 0, 0, 0));
  EXPECT_THAT(values_of(batch.at(data::kLabels)[0]), ElementsAre(2, -100, 4, -100, -100));
  EXPECT_THAT(values_of(batch.at(data::kDocuments)[1]), ElementsAre(0, 0, 1, 1, 1));
  EXPECT_THAT(values_of(batch.at(data::kPositions)[1]), ElementsAre(0, 1, 0, 0, 0));
}

}  // namespace
}  // namespace colossal::tune
