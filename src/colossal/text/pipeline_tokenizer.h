// A tokenizer that a Hugging Face tokenizer.json defines. Encoding runs its normalizer,
// pre-tokenizer, word model (BPE, Unigram or WordPiece) and post-processor, in this order; decoding
// runs its decoder.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>

#include "colossal/text/added_tokens.h"
#include "colossal/text/decoder.h"
#include "colossal/text/normalizer.h"
#include "colossal/text/pre_tokenizer.h"
#include "colossal/text/tokenizer.h"
#include "colossal/text/tokenizer_files.h"
#include "colossal/text/word_cache.h"
#include "colossal/text/word_model.h"

namespace colossal::text {

// Has the results of the `tokenizers` library with truncation and padding off: encode() those of
// encode(text, add_special_tokens=False), encode_prompt() those of encode(text), and decode() those
// of decode(tokens, skip_special_tokens=False) wherever the bytes are valid UTF-8.
//
// end_of_text() is the first of the following that is a token: "eos_token" of
// tokenizer_config.json, "eos_token" of special_tokens_map.json, the (first) "eos_token_id" of
// config.json in the same folder, "<|endoftext|>", "<|end_of_text|>", "</s>", "[SEP]".
class PipelineTokenizer : public Tokenizer {
 public:
  // files: (name, content) pairs, tokenizer.json first. Without `files`, reads tokenizer_json and
  // the other tokenizer files in its folder. Throws ConfigError if a setting is unsupported or
  // invalid (naming it) or if no token ends a text, IoError if a file cannot be read.
  explicit PipelineTokenizer(const std::filesystem::path& tokenizer_json);
  PipelineTokenizer(const std::filesystem::path& tokenizer_json, TokenizerFiles files);

  std::vector<int32_t> encode(std::string_view text) const override;
  std::vector<int32_t> encode_prompt(std::string_view text) const override;
  std::string decode(std::span<const int32_t> tokens) const override;
  std::string decode_continuation(std::span<const int32_t> tokens) const override;
  std::vector<SpecialToken> special_tokens() const override;
  int32_t vocabulary_size() const override { return decoder_.vocabulary_size(); }
  int32_t end_of_text() const override { return end_of_text_; }
  std::string fingerprint() const override { return fingerprint_; }
  TokenizerFiles files() const override { return files_; }

 private:
  // Working memory of one encode() call. A later call reuses it with the words in its cache.
  struct Scratch {
    RegexScratch regex;
    std::unique_ptr<WordModel::Scratch> word;
    WordCache cache;
  };
  class ScratchLease;

  struct Source {
    std::filesystem::path path;  // of the tokenizer.json
    TokenizerFiles files;
    TokenizerDefinition definition = {};
    TokenizerConfig config = {};
  };
  static Source read(const std::filesystem::path& tokenizer_json, TokenizerFiles files);
  explicit PipelineTokenizer(Source source);
  static std::optional<int32_t> find_token(const Source& source, const std::string& content);
  static std::string content_of(const Source& source, int32_t token);
  std::optional<int32_t> end_of_text_from_config(const Source& source) const;
  int32_t find_end_of_text(const Source& source) const;
  std::string make_fingerprint(const Source& source) const;
  std::string decode(std::span<const int32_t> tokens, bool first) const;
  void encode_text(std::string_view text, bool begins_text, Scratch& scratch,
                   std::vector<int32_t>& tokens) const;
  void encode_piece(std::string_view piece, bool begins_text, Scratch& scratch,
                    std::vector<int32_t>& tokens) const;
  void encode_part(std::string_view word, Scratch& scratch, std::vector<int32_t>& tokens) const;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& tokens) const;

  Normalizer normalizer_;
  std::vector<AddedToken> added_tokens_;
  AddedTokenFinder exact_tokens_;       // searched for before normalization
  AddedTokenFinder normalized_tokens_;  // searched for after normalization
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<WordModel> model_;
  Decoder decoder_;
  std::vector<int32_t> before_text_, after_text_;  // special tokens that encode_prompt() adds
  int32_t end_of_text_;
  std::string fingerprint_;
  TokenizerFiles files_;

  mutable std::mutex idle_mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_;  // those that no call uses
};

}  // namespace colossal::text
