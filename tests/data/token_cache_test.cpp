#include "colossal/data/token_cache.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/data/text_folder.h"

namespace colossal::data {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr CacheKey kKey{17, 4};

class TokenCache : public ::testing::Test {
 protected:
  TokenCache() : path_(folder_ / "cache/x.tokens") {}

  void write(const std::vector<uint16_t>& tokens) const {
    TokenCacheWriter writer(path_, kKey, 2);
    writer.append(std::as_bytes(std::span(tokens)));
    writer.finish({.tokens = std::ssize(tokens), .files = 3, .skipped_files = 1});
  }

  // Changes the byte at `offset` of the file.
  void flip(int64_t offset) const {
    std::string content = read_file(path_);
    content.at(offset) ^= 0x40;
    std::ofstream(path_, std::ios::binary) << content;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache")) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  TextFolder folder_;
  std::string path_;
};

TEST_F(TokenCache, GivesBackWhatWasWritten) {
  std::vector<uint16_t> tokens(5'000'000);  // larger than the writer's buffer
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint16_t>(i * 7);
  write(tokens);
  const auto stored = read_token_cache(path_, kKey);
  ASSERT_TRUE(stored);
  EXPECT_TRUE(std::ranges::equal(stored->bytes, std::as_bytes(std::span(tokens))));
  EXPECT_EQ(stored->width, 2);
  EXPECT_EQ(stored->counts.tokens, 5'000'000);
  EXPECT_EQ(stored->counts.files, 3);
  EXPECT_EQ(stored->counts.skipped_files, 1);
  EXPECT_EQ(names(), std::vector<std::string>{"x.tokens"});
}

TEST_F(TokenCache, NothingWhereThereIsNoFileOrAnothers) {
  EXPECT_FALSE(read_token_cache(path_, kKey));
  write({1, 2, 3});
  EXPECT_TRUE(read_token_cache(path_, kKey));
  EXPECT_FALSE(read_token_cache(path_, {17, 5}));
}

TEST_F(TokenCache, EveryFlippedByteIsSeen) {
  write({1, 2, 3});
  const int64_t size = std::ssize(read_file(path_));
  ASSERT_EQ(size, 128 + 6);
  for (int64_t offset = 0; offset < size; ++offset) {
    flip(offset);
    EXPECT_FALSE(read_token_cache(path_, kKey)) << "byte " << offset;
    flip(offset);
  }
  EXPECT_TRUE(read_token_cache(path_, kKey));
}

TEST_F(TokenCache, AWrongSizeIsSeen) {
  write({1, 2, 3});
  for (const int64_t size : {0, 1, 127, 128, 133, 135, 1000}) {
    std::filesystem::resize_file(path_, size);
    EXPECT_FALSE(read_token_cache(path_, kKey)) << size << " bytes";
    write({1, 2, 3});
  }
}

TEST_F(TokenCache, AnUnfinishedWriterLeavesNothing) {
  { TokenCacheWriter writer(path_, kKey, 2); }
  EXPECT_TRUE(names().empty());
}

TEST_F(TokenCache, WhatAKilledWriterLeftIsDropped) {
  folder_.write("cache/x.tokens.partial", std::string(1000, 'x'));
  write({1, 2});
  ASSERT_TRUE(read_token_cache(path_, kKey));
  EXPECT_EQ(read_token_cache(path_, kKey)->counts.tokens, 2);
  EXPECT_EQ(names(), std::vector<std::string>{"x.tokens"});
}

TEST_F(TokenCache, OneWritesAtATime) {
  std::atomic<int> inside = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 20; ++repeat) {
        TokenCacheWriter writer(path_, kKey, 2);
        EXPECT_EQ(++inside, 1);
        std::this_thread::sleep_for(100us);
        const uint16_t token = 5;
        writer.append(std::as_bytes(std::span(&token, 1)));
        --inside;
        if (repeat % 2 == 0) writer.finish({.tokens = 1, .files = 1});
      }
    });
  }
  threads.clear();
  EXPECT_TRUE(read_token_cache(path_, kKey));
  EXPECT_EQ(names(), std::vector<std::string>{"x.tokens"});
}

TEST_F(TokenCache, AFolderThatCannotBeMadeIsNamed) {
  folder_.write("cache", "a file where the folder should be");
  EXPECT_THAT(message_of<IoError>([&] { TokenCacheWriter(path_, kKey, 2); }),
              HasSubstr(folder_ / "cache"));
}

TEST(CacheKey, DependsOnAllThatTheTokensDependOn) {
  const std::vector<SourceFile> files = {{"/a", 1, 10}, {"/b", 2, 20}};
  const auto key = [](const std::vector<SourceFile>& files, int32_t vocabulary = 257,
                      InvalidFiles invalid = InvalidFiles::error) {
    return make_cache_key(files, LetterTokenizer(vocabulary), {.invalid = invalid});
  };
  EXPECT_EQ(key(files), key(files));
  EXPECT_EQ(make_cache_key(files, LetterTokenizer(), {.num_threads = 7, .setting = "validation"}),
            key(files));
  const std::vector<CacheKey> others = {
      key({{"/a", 1, 10}, {"/c", 2, 20}}),
      key({{"/a", 1, 10}, {"/b", 3, 20}}),
      key({{"/a", 1, 10}, {"/b", 2, 21}}),
      key({{"/a", 1, 10}}),
      // Tools can set the time of the last modification, but not that of the last change.
      key({{"/a", 1, 10}, {"/b", 2, 20, 30}}),
      key({{"/a", 1, 10}, {"/b", 2, 20, 0, FileFormat::csv}}),
      make_cache_key(files, LetterTokenizer(), {.before_document = {1}}),
      key({{"/a 1", 1, 10}, {"/b", 2, 20}}),
      key(files, 300),
      key(files, 257, InvalidFiles::skip),
  };
  for (const CacheKey& other : others) EXPECT_FALSE(other == key(files));
}

}  // namespace
}  // namespace colossal::data
