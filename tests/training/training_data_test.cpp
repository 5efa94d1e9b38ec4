// What a resumed run says of the data on which it goes on.
#include "colossal/training/training_data.h"

#include <gtest/gtest.h>

namespace colossal {
namespace {

TEST(ChangedCorpus, IsNoticedByItsContents) {
  const nlohmann::json saved{{"tokens", 10492}, {"contents", "a1"}, {"tokenizer", "bytes"}};
  nlohmann::json here = saved;
  EXPECT_EQ(describe_changed_corpus(saved, here), "");
  here["contents"] = "b2";
  EXPECT_EQ(
      describe_changed_corpus(saved, here),
      "the corpus has changed since this checkpoint (10,492 tokens then, 10,492 now with other "
      "contents); the order of samples will differ");
  here["tokens"] = 254;
  EXPECT_EQ(describe_changed_corpus(saved, here),
            "the corpus has changed since this checkpoint (10,492 tokens then, 254 now); the order "
            "of samples will differ");
}

TEST(OtherTokenizer, IsRefused) {
  const auto bytes = text::make_tokenizer("bytes");
  refuse_other_tokenizer({{"tokenizer", bytes->fingerprint()}}, *bytes, "bytes");
  refuse_other_tokenizer(nlohmann::json::object(), *bytes, "bytes");
  EXPECT_THROW(refuse_other_tokenizer({{"tokenizer", "json-1"}}, *bytes, "bytes"), ConfigError);
}

TEST(ChangedCorpus, IsTakenByTheCountOfTokensFromAnOlderCheckpoint) {
  const nlohmann::json saved{{"tokens", 10492}, {"tokenizer", "bytes"}};
  EXPECT_EQ(describe_changed_corpus(
                saved, {{"tokens", 10492}, {"contents", "b2"}, {"tokenizer", "bytes"}}),
            "");
}

}  // namespace
}  // namespace colossal
