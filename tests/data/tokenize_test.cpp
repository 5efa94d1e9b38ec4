#include "colossal/data/tokenize.h"

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

#include "tests/data/compressed_text.h"
#include "tests/data/text_folder.h"

namespace colossal::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Outcome {
  std::vector<int64_t> tokens;
  TokenCounts counts;
};

Outcome tokenize(const std::vector<std::string>& patterns, const text::Tokenizer& tokenizer,
                 const TokenizeOptions& options = {.num_threads = 2},
                 const FormatOptions& formats = {}) {
  std::vector<std::byte> bytes;
  Outcome outcome;
  outcome.counts = tokenize_files(find_source_files(patterns, "data.train", formats), tokenizer,
                                  options, [&](std::span<const std::byte> part) {
                                    bytes.insert(bytes.end(), part.begin(), part.end());
                                  });
  const int width = token_width(tokenizer);
  for (size_t i = 0; i < bytes.size(); i += width) {
    int32_t token = 0;
    std::memcpy(&token, &bytes[i], width);
    outcome.tokens.push_back(token);
  }
  EXPECT_EQ(outcome.counts.tokens, std::ssize(outcome.tokens));
  return outcome;
}

TEST(Tokenize, JoinsFilesByEndOfText) {
  TextFolder folder;
  folder.write("a", "xy");
  folder.write("b", "");
  folder.write("c", "z");
  const Outcome outcome = tokenize({folder / "*"}, LetterTokenizer());
  EXPECT_THAT(outcome.tokens, ElementsAre('x', 'y', 256, 'z'));
  EXPECT_EQ(outcome.counts.files, 3);
}

TEST(Tokenize, StoresTwoBytesWhereTheVocabularyFits) {
  EXPECT_EQ(token_width(LetterTokenizer(65536)), 2);
  EXPECT_EQ(token_width(LetterTokenizer(65537)), 4);
  TextFolder folder;
  folder.write("a", "x");
  folder.write("b", "y");
  EXPECT_THAT(tokenize({folder / "*"}, LetterTokenizer(65536)).tokens,
              ElementsAre('x', 65535, 'y'));
  EXPECT_THAT(tokenize({folder / "*"}, LetterTokenizer(65537)).tokens,
              ElementsAre('x', 65536, 'y'));
}

TEST(Tokenize, ManyFilesComeInOrderAtAnyNumberOfThreads) {
  TextFolder folder;
  std::vector<int64_t> expected;
  for (int i = 100; i < 300; ++i) {
    const std::string text(i % 13 * 50, static_cast<char>('a' + i % 26));
    folder.write(std::to_string(i), text);
    if (!expected.empty() && !text.empty()) expected.push_back(256);
    expected.insert(expected.end(), text.begin(), text.end());
  }
  for (const int num_threads : {1, 2, 7}) {
    EXPECT_EQ(tokenize({folder / "*"}, LetterTokenizer(), {.num_threads = num_threads}).tokens,
              expected);
  }
}

// Three pieces of 16 MiB give the tokens of the whole file, without separators between them.
TEST(Tokenize, AHugeFileGoesInPieces) {
  TextFolder folder;
  std::string text((size_t{32} << 20) + 5, '\0');
  std::iota(text.begin(), text.end(), '\0');
  folder.write("a", text);
  folder.write("b", "z");
  std::vector<int64_t> steps;
  TokenizeOptions options{.num_threads = 2};
  options.progress = [&](const TokenizeProgress& progress) {
    EXPECT_EQ(progress.bytes_total, std::ssize(text) + 1);
    steps.push_back(progress.bytes_done);
  };
  std::vector<uint16_t> tokens;
  const TokenCounts counts = tokenize_files(
      find_source_files(std::vector{folder / "*"}, "data.train"),
      LetterTokenizer(257, /*any_bytes=*/true), options, [&](std::span<const std::byte> part) {
        const auto* begin = reinterpret_cast<const uint16_t*>(part.data());
        tokens.insert(tokens.end(), begin, begin + part.size() / 2);
      });
  std::vector<uint16_t> expected(text.size());
  std::ranges::transform(text, expected.begin(), [](char c) { return static_cast<uint8_t>(c); });
  expected.insert(expected.end(), {256, 'z'});
  EXPECT_TRUE(tokens == expected);
  EXPECT_EQ(counts.files, 2);
  EXPECT_THAT(steps, ElementsAre(16 << 20, 32 << 20, (32 << 20) + 5, (32 << 20) + 6));
}

TEST(Tokenize, AFileTooLargeToBeTakenAsAWholeIsRefused) {
  TextFolder folder;
  folder.write("a", "x");
  std::filesystem::resize_file(folder / "a", (int64_t{1} << 30) + 1);  // sparse
  EXPECT_THAT(message_of<ConfigError>([&] { tokenize({folder / "a"}, LetterTokenizer()); }),
              AllOf(HasSubstr(folder / "a"), HasSubstr("at most 1.00 GiB"), HasSubstr("split it")));
}

TEST(Tokenize, TheFirstFileThatIsNotUtf8IsNamedWithItsOffset) {
  TextFolder folder;
  folder.write("a", "fine");
  folder.write("b", "123\xff");
  folder.write("c", "\xff");
  const auto message =
      message_of<ConfigError>([&] { tokenize({folder / "*"}, LetterTokenizer()); });
  EXPECT_THAT(message, AllOf(HasSubstr("data.train"), HasSubstr(folder / "b"), HasSubstr("byte 3"),
                             HasSubstr("data.invalid = \"skip\"")));
}

TEST(Tokenize, SkippedFilesAreCountedAndLeaveNoSeparator) {
  TextFolder folder;
  folder.write("a", "\xff");
  folder.write("b", "x");
  folder.write("c", "abc\xff");
  folder.write("d", "y");
  folder.write("e", "\xff");
  const Outcome outcome =
      tokenize({folder / "*"}, LetterTokenizer(), {.invalid = InvalidFiles::skip});
  EXPECT_THAT(outcome.tokens, ElementsAre('x', 256, 'y'));
  EXPECT_EQ(outcome.counts.files, 2);
  EXPECT_EQ(outcome.counts.skipped_files, 3);
}

TEST(Tokenize, AFileThatChangesMeanwhileIsAnError) {
  TextFolder folder;
  folder.write("a", "xyz");
  const auto files = find_source_files(std::vector{folder / "a"}, "data.train");
  const auto run = [&] { tokenize_files(files, LetterTokenizer(), {}, [](auto) {}); };
  folder.write("a", "x");
  EXPECT_THAT(message_of<IoError>(run), HasSubstr("1 bytes long, 3 were expected"));
  std::filesystem::remove(folder / "a");
  EXPECT_THAT(message_of<IoError>(run), HasSubstr(folder / "a"));
}

// With any suffix, any number of threads, and tokenizers that accept pieces of texts or not.
TEST(Tokenize, ALineIsADocument) {
  TextFolder folder;
  for (const char* name : {"a.jsonl", "b.jsonl.gz", "c.jsonl.zst"}) {
    folder.write(name,
                 as_stored(name, "{\"text\": \"xy\"}\n\n{\"text\": \"\"}\r\n{\"text\": \"z\"}"));
  }
  folder.write("d.txt.gz", gzipped("uv"));
  folder.write("e.jsonl", "\n");
  for (const bool any_bytes : {false, true}) {
    for (const int num_threads : {1, 3}) {
      const Outcome outcome =
          tokenize({folder / "*"}, LetterTokenizer(257, any_bytes), {.num_threads = num_threads});
      EXPECT_THAT(outcome.tokens, ElementsAre('x', 'y', 256, 'z', 256, 'x', 'y', 256, 'z', 256, 'x',
                                              'y', 256, 'z', 256, 'u', 'v'));
      EXPECT_EQ(outcome.counts.files, 5);
      EXPECT_EQ(outcome.counts.documents, 10);
    }
  }
}

TEST(Tokenize, TheFieldAndTheFormatAreAsAsked) {
  TextFolder folder;
  folder.write("a.txt", "{\"body\": \"x\"}\n{\"body\": \"y\"}\n");
  EXPECT_THAT(tokenize({folder / "*"}, LetterTokenizer(), {.text_field = "body"},
                       {.format = FileFormat::jsonl})
                  .tokens,
              ElementsAre('x', 256, 'y'));
  EXPECT_EQ(tokenize({folder / "*"}, LetterTokenizer()).tokens.size(), 28u);
}

TEST(Tokenize, TokensStandBeforeEachDocumentThatIsNotEmpty) {
  TextFolder folder;
  folder.write("a.jsonl", "{\"text\": \"x\"}\n{\"text\": \"\"}\n{\"text\": \"y\"}\n");
  folder.write("b.txt", "z");
  folder.write("c.txt", "");
  for (const bool any_bytes : {false, true}) {
    EXPECT_THAT(
        tokenize({folder / "*"}, LetterTokenizer(257, any_bytes), {.before_document = {7}}).tokens,
        ElementsAre(7, 'x', 256, 7, 'y', 256, 7, 'z'));
  }
}

// A border of pieces within a character is no damage.
TEST(Tokenize, FilesThatAreNotUtf8AreCountedWhereTheirBytesAreTokens) {
  TextFolder folder;
  std::string text = "x";
  while (std::ssize(text) < (33 << 20)) text += "\xc3\xa4";  // borders of pieces after odd bytes
  folder.write("a", text);
  folder.write("b", "cr\xe8me caf\xe9");
  folder.write("c", text + "\xff" + text);
  const Outcome outcome = tokenize({folder / "*"}, LetterTokenizer(257, true));
  folder.write("d", "caf\xe9");  // ends as if within a character
  EXPECT_EQ(tokenize({folder / "d"}, LetterTokenizer(257, true)).counts.not_utf8_files, 1);
  EXPECT_EQ(outcome.counts.not_utf8_files, 2);
  EXPECT_EQ(outcome.counts.not_utf8_file, folder / "b");
}

// Files of 9 MiB, so that lines cross the borders of pieces.
TEST(Tokenize, LinesAreWholeWhereverPiecesEnd) {
  TextFolder folder;
  std::string lines, longest(5 << 20, 'l');
  std::vector<int64_t> expected;
  for (int i = 0; std::ssize(lines) < (9 << 20); ++i) {
    const std::string text = i == 7 ? longest : std::string(1 + i * 37 % 5000, 'a' + i % 26);
    lines += "{\"text\": \"" + text + "\"}\n";
    if (i > 0) expected.push_back(256);
    expected.insert(expected.end(), text.begin(), text.end());
  }
  for (const std::string name : {"a.jsonl", "a.jsonl.gz", "a.jsonl.zst"}) {
    const std::string path = folder.write(name, as_stored(name, lines));
    int64_t done = 0, num_pieces = 0;
    TokenizeOptions options{.num_threads = 2};
    options.progress = [&](const TokenizeProgress& progress) {
      done = progress.bytes_done;
      ++num_pieces;
    };
    EXPECT_TRUE(tokenize({path}, LetterTokenizer(), options).tokens == expected) << name;
    EXPECT_EQ(done, std::filesystem::file_size(path));
    EXPECT_GE(num_pieces, 2);
  }
}

TEST(Tokenize, AnInvalidLineIsNamedOrSkipped) {
  TextFolder folder;
  std::string lines;
  for (int i = 0; i < 400'000; ++i) lines += "{\"text\": \"x\"}\n";
  lines += "{\"text\": 5}\n{\"text\": \"y\"}\n";  // in the second piece
  for (const std::string name : {"a.jsonl", "a.jsonl.gz"}) {
    const std::string path = folder.write(name, as_stored(name, lines));
    const auto message =
        message_of<ConfigError>([&] { tokenize({path}, LetterTokenizer(), {.num_threads = 2}); });
    EXPECT_THAT(message,
                AllOf(HasSubstr("data.train"), HasSubstr(path), HasSubstr("line 400001 of"),
                      HasSubstr("of type number"), HasSubstr("data.invalid = \"skip\"")));
    const Outcome skipped =
        tokenize({path}, LetterTokenizer(), {.num_threads = 2, .invalid = InvalidFiles::skip});
    EXPECT_EQ(skipped.counts.skipped_lines, 1);
    EXPECT_EQ(skipped.counts.documents, 400'001);
    EXPECT_EQ(skipped.tokens.size(), 800'001u);
    EXPECT_EQ(skipped.tokens.back(), 'y');
  }
}

TEST(Tokenize, ADamagedFileIsNamedAfterThoseBeforeIt) {
  TextFolder folder;
  folder.write("a.txt", "x");
  folder.write("b.jsonl.gz", gzipped("{\"text\": \"x\"}").substr(0, 20));
  EXPECT_THAT(message_of<IoError>([&] { tokenize({folder / "*"}, LetterTokenizer()); }),
              AllOf(HasSubstr("b.jsonl.gz"), HasSubstr("ends within")));
}

}  // namespace
}  // namespace colossal::data
