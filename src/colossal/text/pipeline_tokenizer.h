// A tokenizer from a Hugging Face tokenizer.json: normalizer, pre-tokenizer, a model of words (BPE,
// Unigram or WordPiece), post-processor and decoder, one after the other.
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

// encode() equals `tokenizers`' encode(text, add_special_tokens=False), with truncation and padding
// off, encode_prompt() its encode(text), and decode() its decode(tokens, skip_special_tokens=False)
// wherever the bytes are UTF-8.
//
// end_of_text() is, of these, the first that is a token: the eos_token of tokenizer_config.json,
// that of special_tokens_map.json, the (first) eos_token_id of a config.json beside it,
// "<|endoftext|>", "<|end_of_text|>", "</s>", "[SEP]".
class PipelineTokenizer : public Tokenizer {
 public:
  // The tokenizer.json and what lies beside it. Throws ConfigError naming what is unsupported or
  // wrong, IoError for a file that cannot be read.
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
  // Working memory of one encode() at a time. Kept from call to call, so that its cache stays warm.
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
  std::optional<int32_t> end_by_config(const Source& source) const;
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
  AddedTokenFinder exact_tokens_;       // looked for in the text as it comes
  AddedTokenFinder normalized_tokens_;  // looked for in the normalized text
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<WordModel> model_;
  Decoder decoder_;
  std::vector<int32_t> before_text_, after_text_;  // of encode_prompt()
  int32_t end_of_text_;
  std::string fingerprint_;
  TokenizerFiles files_;

  mutable std::mutex idle_mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_;
};

}  // namespace colossal::text
