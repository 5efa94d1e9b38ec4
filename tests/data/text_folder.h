// A folder of texts that lives as long as a test, and a tokenizer whose tokens can be foretold.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/tokenizer/tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace colossal::data {

// With paths as the strings that the functions tested take.
class TextFolder {
 public:
  std::string operator/(std::string_view name) const { return (directory_ / name).string(); }

  std::string write(std::string_view name, std::string_view content) const {
    return directory_.write(name, content);
  }

 private:
  test::TemporaryDirectory directory_;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Token = byte; the end of text is the last of the vocabulary. Text with a byte beyond ASCII is
// refused, or fine if it takes any bytes.
class LetterTokenizer : public text::Tokenizer {
 public:
  explicit LetterTokenizer(int32_t vocabulary_size = 257, bool any_bytes = false)
      : vocabulary_size_(vocabulary_size), any_bytes_(any_bytes) {}

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> tokens;
    tokens.reserve(text.size());
    for (size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if (byte >= 0x80 && !any_bytes_) throw text::InvalidText(static_cast<int64_t>(i));
      tokens.push_back(byte);
    }
    return tokens;
  }
  std::string decode(std::span<const int32_t> tokens) const override {
    return {tokens.begin(), tokens.end()};
  }
  bool is_concatenative() const override { return any_bytes_; }
  int32_t vocabulary_size() const override { return vocabulary_size_; }
  int32_t end_of_text() const override { return vocabulary_size_ - 1; }
  std::string fingerprint() const override { return fmt::format("letters {}", vocabulary_size_); }
  std::vector<std::pair<std::string, std::string>> files() const override { return {}; }

 private:
  int32_t vocabulary_size_;
  bool any_bytes_;
};

// What the function throws says, or nothing thrown.
template <typename Exception, typename Function>
std::string message_of(const Function& function) {
  try {
    function();
  } catch (const Exception& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace colossal::data
