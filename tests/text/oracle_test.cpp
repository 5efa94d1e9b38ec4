// Our tokens equal those of the `tokenizers` and `transformers` libraries, for every supported kind
// of file.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "colossal/io/file.h"
#include "colossal/text/tokenizer/byte_alphabet.h"
#include "colossal/text/tokenizer/normalization_form.h"
#include "colossal/text/tokenizer/pipeline_tokenizer.h"
#include "colossal/text/tokenizer/streaming_decoder.h"
#include "colossal/text/utf8.h"
#include "tests/support/temporary_directory.h"

namespace colossal::text {
namespace {

namespace fs = std::filesystem;

class Reader {
 public:
  explicit Reader(const fs::path& path) : stream_(path, std::ios::binary) {}

  // Reads a 32-bit count and as many elements. Returns false at the end of the file.
  template <typename Sequence>
  bool read(Sequence& sequence) {
    uint32_t count = 0;
    if (!stream_.read(reinterpret_cast<char*>(&count), sizeof(count))) return false;
    sequence.resize(count);
    const auto num_bytes = static_cast<std::streamsize>(count * sizeof(sequence[0]));
    return static_cast<bool>(stream_.read(reinterpret_cast<char*>(sequence.data()), num_bytes));
  }

 private:
  std::ifstream stream_;
};

std::string describe(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens) {
  std::string words;
  for (int32_t token : tokens) {
    words +=
        fmt::format(" {}({})", token, to_byte_alphabet(tokenizer.decode(std::span(&token, 1))));
  }
  return words.substr(0, 2000);
}

// A Python program makes tokenizers and encodes texts with them. Then each folder is read, and must
// give the same tokens.
class Oracle {
 public:
  Oracle(int num_fuzz_texts, int seed) {
    fs::create_directory(folder_.path() / "byte_files");
    for (const auto& [name, content] : make_tokenizer("bytes")->files()) {
      folder_.write("byte_files/" + name, content);
    }
    const std::string command = fmt::format(
        "'{0}/.venv/bin/python' '{0}/tests/text/tokenizer_oracle.py' '{1}' '{1}/byte_files' {2} "
        "{3}",
        COLOSSAL_TEST_SOURCE_DIR, folder_.path().string(), num_fuzz_texts, seed);
    status_ = std::system(command.c_str());
  }

  void compare_all() {
    ASSERT_EQ(status_, 0) << "the Python side failed";
    int num_tokenizers = 0;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (!fs::exists(entry.path() / "tokens.bin")) continue;
      SCOPED_TRACE(entry.path().filename().string());
      ++num_tokenizers;
      compare(entry.path());
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(num_tokenizers, 106);
  }

 private:
  void compare(const fs::path& folder) {
    const bool is_bytes = folder.filename() == "bytes";
    const auto tokenizer = make_tokenizer(is_bytes ? "bytes" : folder.string());
    std::optional<PipelineTokenizer> read_back;
    if (is_bytes) read_back.emplace(folder_.path() / "byte_files" / kTokenizerFile);
    const bool is_lossless =
        is_bytes || folder.filename() == "gpt2" || folder.filename() == "llama3";
    Reader texts(folder / "texts.bin"), expected(folder / "tokens.bin");
    std::string text;
    std::vector<int32_t> tokens;
    int64_t num_texts = 0;
    for (; texts.read(text) && expected.read(tokens); ++num_texts) {
      const auto found = tokenizer->encode(text);
      ASSERT_EQ(found, tokens) << "text " << num_texts << ": " << text.substr(0, 500)
                               << "\nas bytes " << to_byte_alphabet(text).substr(0, 500)
                               << "\nours " << describe(*tokenizer, found) << "\ntheirs "
                               << describe(*tokenizer, tokens);
      ASSERT_TRUE(!is_lossless || tokenizer->decode(tokens) == text) << text;
      ASSERT_TRUE(!is_bytes || read_back->encode(text) == tokens) << text;
    }
    EXPECT_GT(num_texts, 50);
    if (fs::exists(folder / "end")) {
      EXPECT_EQ(tokenizer->end_of_text(), std::stoi(io::read_file(folder / "end")));
    }
    if (fs::exists(folder / "decoded.bin")) compare_decodings(folder, *tokenizer);
    for (int i = 0; fs::exists(folder / fmt::format("prompts_{}", i)); ++i) {
      compare_prompts(folder / fmt::format("prompts_{}", i));
    }
  }

  static void compare_prompts(const fs::path& folder) {
    const PipelineTokenizer tokenizer(folder / kTokenizerFile);
    Reader texts(folder / "texts.bin"), expected(folder / "tokens.bin");
    std::string text;
    std::vector<int32_t> tokens;
    while (texts.read(text) && expected.read(tokens)) {
      ASSERT_EQ(tokenizer.encode_prompt(text), tokens) << text;
      ASSERT_NE(tokenizer.encode(text), tokens) << text;
    }
  }

  // Decodes all at once and token by token. Skips invalid UTF-8, which the libraries replace
  // elsewhere.
  static void compare_decodings(const fs::path& folder, const Tokenizer& tokenizer) {
    Reader sequences(folder / "sequences.bin"), expected(folder / "decoded.bin");
    std::vector<int32_t> tokens;
    std::string text;
    int64_t num_compared = 0;
    while (sequences.read(tokens) && expected.read(text)) {
      const std::string found = tokenizer.decode(tokens);
      if (valid_utf8_length(found) != found.size()) continue;
      ASSERT_EQ(found, text) << describe(tokenizer, tokens);
      StreamingDecoder decoder(tokenizer);
      std::string streamed;
      for (int32_t token : tokens) streamed += decoder.push(token);
      ASSERT_EQ(streamed + decoder.flush(), text) << describe(tokenizer, tokens);
      ++num_compared;
    }
    EXPECT_GT(num_compared, 300);
  }

  test::TemporaryDirectory folder_;
  int status_ = 0;
};

// Compares with Python's unicodedata: combinations of Hangul characters.
TEST(NfcOracle, Hangul) {
  const test::TemporaryDirectory folder;
  const std::string command =
      fmt::format("'{0}/.venv/bin/python' '{0}/tests/text/normalization_oracle.py' '{1}'",
                  COLOSSAL_TEST_SOURCE_DIR, folder.path().string());
  ASSERT_EQ(std::system(command.c_str()), 0);
  Reader texts(folder.path() / "texts.bin"), expected(folder.path() / "composed.bin");
  std::string text, composed;
  int num_texts = 0;
  for (; texts.read(text) && expected.read(composed); ++num_texts) {
    ASSERT_EQ(to_normalization_form(text, NormalizationForm::nfc), composed)
        << to_byte_alphabet(text);
  }
  EXPECT_GT(num_texts, 100000);
}

TEST(TokenizerOracle, StandardLibraryAndFuzzTexts) {
  Oracle(1000, 1).compare_all();
}

TEST(SlowTokenizerOracle, EveryCharacterAndManyFuzzTexts) {
  Oracle(40000, 2).compare_all();
}

}  // namespace
}  // namespace colossal::text
