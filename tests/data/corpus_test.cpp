#include "colossal/data/corpus.h"

#include <gmock/gmock.h>

#include <numeric>
#include <thread>

#include "tests/data/text_folder.h"

namespace colossal::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> all_tokens(const Corpus& corpus) {
  std::vector<int64_t> tokens(corpus.num_tokens());
  corpus.read(0, tokens);
  return tokens;
}

class CorpusFiles : public ::testing::Test {
 protected:
  CorpusFiles() {
    folder_.write("text/a", "xyz");
    folder_.write("text/b", "uv");
  }

  CorpusOptions options(const std::string& cache = "cache") const {
    CorpusOptions options;
    options.num_threads = 2;
    if (!cache.empty()) options.cache = folder_ / cache;
    return options;
  }

  Corpus open(const CorpusOptions& options, const text::Tokenizer& tokenizer) const {
    return Corpus::open(std::vector{folder_ / "text/*"}, tokenizer, options);
  }
  Corpus open(const CorpusOptions& options) const { return open(options, LetterTokenizer()); }

  std::string cache_file() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache")) {
      return entry.path();
    }
    return "";
  }

  TextFolder folder_;
};

TEST_F(CorpusFiles, HasAFingerprintOfItsTokensAndBorders) {
  const std::string usual = open(options("")).fingerprint();
  EXPECT_EQ(open(options()).fingerprint(), usual);
  const Corpus cached = open(options());
  EXPECT_TRUE(cached.from_cache());
  EXPECT_EQ(cached.fingerprint(), usual);
  folder_.write("text/b", "uw");  // the same number of tokens
  EXPECT_NE(open(options("")).fingerprint(), usual);
  folder_.write("text/a", "xy");  // the same letters, divided elsewhere
  folder_.write("text/b", "zuv");
  EXPECT_NE(open(options("")).fingerprint(), usual);
}

TEST_F(CorpusFiles, IsTheSameFromMemoryFromItsFirstAndFromItsSecondOpening) {
  for (const int32_t vocabulary : {257, 100'000}) {
    const LetterTokenizer tokenizer(vocabulary);
    const Corpus memory = open(options(""), tokenizer);
    const Corpus first = open(options(), tokenizer);
    const Corpus second = open(options(), tokenizer);
    EXPECT_FALSE(memory.from_cache());
    EXPECT_FALSE(first.from_cache());
    EXPECT_TRUE(second.from_cache());
    for (const Corpus& corpus : {memory, first, second}) {
      EXPECT_THAT(all_tokens(corpus), ElementsAre('x', 'y', 'z', vocabulary - 1, 'u', 'v'));
      EXPECT_EQ(corpus.num_files(), 2);
      EXPECT_EQ(corpus.num_skipped_files(), 0);
      EXPECT_EQ(corpus.setting(), "data.train");
    }
  }
}

TEST_F(CorpusFiles, ReadsAnyRange) {
  const Corpus corpus = open(options());
  std::vector<int64_t> tokens(3);
  corpus.read(2, tokens);
  EXPECT_THAT(tokens, ElementsAre('z', 256, 'u'));
  corpus.read(6, {});
  EXPECT_THROW(corpus.read(4, tokens), InternalError);
  EXPECT_THROW(corpus.read(-1, tokens), InternalError);
}

TEST_F(CorpusFiles, AChangedFileIsTokenizedAgain) {
  open(options());
  folder_.write("text/b", "w");
  const Corpus corpus = open(options());
  EXPECT_FALSE(corpus.from_cache());
  EXPECT_THAT(all_tokens(corpus), ElementsAre('x', 'y', 'z', 256, 'w'));
}

TEST_F(CorpusFiles, ADamagedCacheIsWrittenAgain) {
  open(options());
  const auto size = static_cast<int64_t>(std::filesystem::file_size(cache_file()));
  for (const int64_t kept : {int64_t{0}, int64_t{64}, int64_t{128}, size - 1}) {
    std::filesystem::resize_file(cache_file(), kept);
    const Corpus corpus = open(options());
    EXPECT_FALSE(corpus.from_cache());
    EXPECT_THAT(all_tokens(corpus), ElementsAre('x', 'y', 'z', 256, 'u', 'v'));
    EXPECT_TRUE(open(options()).from_cache());
  }
}

TEST_F(CorpusFiles, ManyRanksTokenizeOnce) {
  std::atomic<int> tokenizations = 0;
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 6; ++rank) {
    ranks.emplace_back([&] {
      const Corpus corpus = open(options());
      if (!corpus.from_cache()) ++tokenizations;
      EXPECT_EQ(corpus.num_tokens(), 6);
    });
  }
  ranks.clear();
  EXPECT_EQ(tokenizations, 1);
}

TEST_F(CorpusFiles, SkippedFilesAreCountedAlsoFromTheCache) {
  folder_.write("text/c", "\xff");
  CorpusOptions options = this->options();
  EXPECT_THAT(message_of<ConfigError>([&] { open(options); }), HasSubstr(folder_ / "text/c"));
  options.invalid = InvalidFiles::skip;
  for (const bool from_cache : {false, true}) {
    const Corpus corpus = open(options);
    EXPECT_EQ(corpus.from_cache(), from_cache);
    EXPECT_EQ(corpus.num_skipped_files(), 1);
    EXPECT_EQ(corpus.num_files(), 2);
  }
}

TEST_F(CorpusFiles, AFailedTokenizationLeavesNoCache) {
  folder_.write("text/c", "\xff");
  EXPECT_THROW(open(options()), ConfigError);
  EXPECT_EQ(cache_file(), "");
}

TEST(Corpus, WithoutTextIsRefused) {
  TextFolder folder;
  folder.write("a", "");
  folder.write("b", "");
  folder.write("c", "\xff");
  CorpusOptions options;
  options.setting = "data.validation";
  options.invalid = InvalidFiles::skip;
  const auto open = [&](const std::string& cache) {
    options.cache = cache;
    Corpus::open(std::vector{folder / "?"}, LetterTokenizer(), options);
  };
  for (const std::string& cache : {std::string(), folder / "cache", folder / "cache"}) {
    EXPECT_THAT(
        message_of<ConfigError>([&] { open(cache); }),
        AllOf(HasSubstr("data.validation"), HasSubstr("2 empty files"), HasSubstr("1 skipped")));
  }
}

TEST(Corpus, OfOneEmptyFileIsRefusedInTheSingular) {
  TextFolder folder;
  folder.write("a", "");
  EXPECT_THAT(
      message_of<ConfigError>([&] { Corpus::open(std::vector{folder / "a"}, LetterTokenizer()); }),
      ::testing::EndsWith("1 empty file"));
}

TEST(Corpus, IsMadeOfTokens) {
  const std::vector<int32_t> tokens = {5, 6, 70'000};
  EXPECT_THAT(all_tokens(Corpus::from_tokens(tokens)), ElementsAre(5, 6, 70'000));
}

TEST_F(CorpusFiles, ACacheIsOfOneWayToReadLines) {
  folder_.write("text/c.jsonl", "{\"text\": \"x\", \"body\": \"yz\"}\n\n[]\n");
  CorpusOptions by_name = options();
  by_name.invalid = InvalidFiles::skip;
  EXPECT_FALSE(open(by_name).from_cache());
  const Corpus cached = open(by_name);
  EXPECT_TRUE(cached.from_cache());
  EXPECT_EQ(cached.num_documents(), 3);
  EXPECT_EQ(cached.num_files(), 3);
  EXPECT_EQ(cached.num_skipped_lines(), 1);
  CorpusOptions other_field = by_name, as_text = by_name;
  other_field.text_field = "body";
  as_text.format = FileFormat::text;
  for (const CorpusOptions& other : {other_field, as_text}) {
    const Corpus corpus = open(other);
    EXPECT_FALSE(corpus.from_cache());
    EXPECT_NE(corpus.fingerprint(), cached.fingerprint());
  }
}

TEST_F(CorpusFiles, ACorpusOfInvalidLinesIsRefusedWithTheirCount) {
  folder_.write("lines/a.jsonl", "[]\n{}\n");
  CorpusOptions skipping = options("");
  skipping.invalid = InvalidFiles::skip;
  EXPECT_THAT(message_of<ConfigError>([&] {
                Corpus::open(std::vector{folder_ / "lines/*"}, LetterTokenizer(), skipping);
              }),
              HasSubstr("1 empty file, 2 lines skipped"));
}

// A corpus in memory is limited; a cache is not.
TEST_F(CorpusFiles, WhatMemoryDoesNotHoldIsRefused) {
  CorpusOptions in_memory = options(""), in_cache = options();
  in_memory.memory_limit = in_cache.memory_limit = 11;  // six tokens of two bytes
  EXPECT_THAT(message_of<ConfigError>([&] { open(in_memory); }),
              AllOf(HasSubstr("data.train"), HasSubstr("11 B"), HasSubstr("set data.cache")));
  in_memory.memory_limit = 12;
  EXPECT_EQ(all_tokens(open(in_memory)), all_tokens(open(in_cache)));
}

}  // namespace
}  // namespace colossal::data
