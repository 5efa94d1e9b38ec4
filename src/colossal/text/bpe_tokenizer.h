// Byte-level BPE from a Hugging Face tokenizer.json, as GPT-2 and Llama 3 use it.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "colossal/text/added_tokens.h"
#include "colossal/text/bpe_model.h"
#include "colossal/text/pre_tokenizer.h"
#include "colossal/text/tokenizer.h"
#include "colossal/text/word_cache.h"

namespace colossal::text {

// encode() equals `tokenizers`' encode(text, add_special_tokens=False), with truncation and padding
// off. Tokens without a meaning (a model may have more than the vocabulary) decode to nothing.
class BpeTokenizer : public Tokenizer {
 public:
  // The tokenizer.json and, where there is one beside it, tokenizer_config.json.
  // Throws ConfigError naming what is unsupported or wrong, IoError for a file that cannot be read.
  explicit BpeTokenizer(const std::filesystem::path& tokenizer_json);

  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> tokens) const override;
  int32_t vocabulary_size() const override { return vocabulary_size_; }
  int32_t end_of_text() const override { return end_of_text_; }
  std::string fingerprint() const override { return fingerprint_; }
  std::vector<std::pair<std::string, std::string>> files() const override { return files_; }

 private:
  // Working memory of one encode() at a time. Kept from call to call, so that its cache stays warm.
  struct Scratch {
    RegexScratch regex;
    BpeModel::Scratch bpe;
    WordCache cache;
  };
  class ScratchLease;

  struct Source {
    std::string path;  // of the tokenizer.json
    std::vector<std::pair<std::string, std::string>> files = {};
    TokenizerDefinition definition = {};
    TokenizerConfig config = {};
  };
  static Source read(const std::filesystem::path& tokenizer_json);
  explicit BpeTokenizer(Source source);
  void index_tokens(const TokenizerDefinition& definition);
  int32_t find_end_of_text(const Source& source) const;
  std::string make_fingerprint(const Source& source) const;
  void encode_piece(std::string_view piece, Scratch& scratch, std::vector<int32_t>& tokens) const;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& tokens) const;

  bool compose_;
  AddedTokenFinder exact_tokens_;       // looked for in the text as it comes
  AddedTokenFinder normalized_tokens_;  // looked for in the normalized text
  PreTokenizer pre_tokenizer_;
  BpeModel model_;
  std::unordered_map<int32_t, std::string> bytes_of_token_;
  int32_t vocabulary_size_ = 0;
  int32_t end_of_text_;
  std::string fingerprint_;
  std::vector<std::pair<std::string, std::string>> files_;

  mutable std::mutex idle_mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_;
};

}  // namespace colossal::text
