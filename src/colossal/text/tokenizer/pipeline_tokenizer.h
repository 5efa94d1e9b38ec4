// The tokenizer that a Hugging Face tokenizer.json defines. Encoding runs the file's normalizer,
// pre-tokenizer, word model (BPE, Unigram or WordPiece) and post-processor, in this order. Decoding
// runs the file's decoder.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>

#include "colossal/text/tokenizer/added_tokens.h"
#include "colossal/text/tokenizer/decoder.h"
#include "colossal/text/tokenizer/normalizer.h"
#include "colossal/text/tokenizer/pre_tokenizer.h"
#include "colossal/text/tokenizer/tokenizer.h"
#include "colossal/text/tokenizer/tokenizer_files.h"
#include "colossal/text/tokenizer/word_cache.h"
#include "colossal/text/tokenizer/word_model.h"

namespace colossal::text {

// Tokenizer (tokenizer.h) explains the functions that this class overrides. They give the results
// of the `tokenizers` library with truncation and padding off:
// - encode(): encode(text, add_special_tokens=False);
// - encode_prompt(): encode(text);
// - decode(): decode(tokens, skip_special_tokens=False), wherever the bytes are valid UTF-8.
//
// The files beside the tokenizer.json may add tokens, and name some (companion_tokens.h).
//
// mask_token() is the token that they name "mask_token", else "[MASK]" or "<mask>". end_of_text()
// is the token that they name "eos_token", else the first of the following that is a token:
// "eos_token_id" of config.json in the same folder (of a list, the first id), "<|endoftext|>",
// "<|end_of_text|>", "</s>", "[SEP]".
class PipelineTokenizer : public Tokenizer {
 public:
  // Reads tokenizer_json and the other tokenizer files in its folder. Throws ConfigError naming a
  // setting that is unsupported or invalid, ConfigError if no token ends a text, IoError if a file
  // cannot be read.
  explicit PipelineTokenizer(const std::filesystem::path& tokenizer_json);
  // Like the first constructor, but does not read the tokenizer files again. files: names and
  // contents from read_tokenizer_files(), tokenizer.json first.
  PipelineTokenizer(const std::filesystem::path& tokenizer_json, TokenizerFiles files);

  std::vector<int32_t> encode(std::string_view text) const override {
    return encode_with_breaks(text, {});
  }
  std::vector<int32_t> encode_with_breaks(std::string_view text,
                                          std::span<const size_t> breaks) const override;
  std::vector<int32_t> encode_prompt(std::string_view text) const override;
  std::string decode(std::span<const int32_t> tokens) const override;
  std::string decode_continuation(std::span<const int32_t> tokens) const override;
  std::vector<SpecialToken> special_tokens() const override;
  int32_t vocabulary_size() const override { return decoder_.vocabulary_size(); }
  int32_t end_of_text() const override { return end_of_text_; }
  std::vector<int32_t> beginning_of_text() const override { return before_text_; }
  std::optional<int32_t> bos_token() const override { return bos_token_; }
  std::optional<int32_t> mask_token() const override { return mask_token_; }
  std::string fingerprint() const override { return fingerprint_; }
  TokenizerFiles files() const override { return files_; }

 protected:
  TypedTokens arrange(const std::vector<int32_t>& first,
                      const std::vector<int32_t>* second) const override;

 private:
  // Working memory of one encode() call. Later calls reuse it, so that its cache keeps the tokens
  // of recent words.
  struct Scratch {
    RegexScratch regex;
    std::unique_ptr<WordModel::Scratch> word;
    WordCache cache;
  };
  // Takes a Scratch from idle_, or makes one; puts it into idle_ at the end of the call.
  class ScratchLease;

  // What the constructor reads before it builds the members.
  struct Source {
    std::filesystem::path path;  // of the tokenizer.json
    TokenizerFiles files;
    TokenizerDefinition definition = {};
    TokenizerConfig config = {};  // of tokenizer_config.json and special_tokens_map.json together
    bool adds_tokens = false;     // whether they change the added tokens of `definition`
  };
  static Source read(const std::filesystem::path& tokenizer_json, TokenizerFiles files);
  explicit PipelineTokenizer(Source source);
  // Returns the id of the token with this text; nullopt if there is none.
  static std::optional<int32_t> find_token(const Source& source, const std::string& content);
  // Returns the text of a token id; "" if there is none.
  static std::string content_of(const Source& source, int32_t token);
  std::optional<int32_t> end_of_text_from_config(const Source& source) const;
  int32_t find_end_of_text(const Source& source) const;
  static std::optional<int32_t> find_mask_token(const Source& source);
  static std::optional<int32_t> find_bos_token(const Source& source);
  std::string make_fingerprint(const Source& source) const;
  // Decodes tokens. first: whether they are the beginning of a text, where some tokenizers drop a
  // leading space.
  std::string decode(std::span<const int32_t> tokens, bool first) const;
  // The following functions append tokens of a part of a text to `tokens`. begins_text: whether the
  // part is the beginning of the text.
  //
  // Normalizes a part between exact_tokens_, splits it at normalized_tokens_, and encodes the
  // pieces.
  // with_special: whether normalized special tokens are found.
  void encode_text(std::string_view text, bool begins_text, bool with_special, Scratch& scratch,
                   std::vector<int32_t>& tokens) const;
  // Splits a part without added tokens into words and encodes the words.
  void encode_piece(std::string_view piece, bool begins_text, Scratch& scratch,
                    std::vector<int32_t>& tokens) const;
  // Encodes a word, or a part of a word that encode_word() has cut off. Looks in the cache first.
  void encode_part(std::string_view word, Scratch& scratch, std::vector<int32_t>& tokens) const;
  // Encodes a word. If the model allows cuts at space marks, cuts the word into parts first,
  // because the cache is more likely to have short parts.
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& tokens) const;

  Normalizer normalizer_;
  // With `content` normalized for tokens with match_normalized.
  std::vector<AddedToken> added_tokens_;
  AddedTokenFinder exact_tokens_;       // searched for before normalization
  AddedTokenFinder normalized_tokens_;  // searched for after normalization
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<WordModel> model_;
  Decoder decoder_;
  std::vector<int32_t> before_text_, after_text_;  // special tokens that encode_prompt() adds
  std::vector<PairPart> pair_;                     // TokenizerDefinition::pair
  int32_t end_of_text_;
  std::optional<int32_t> mask_token_, bos_token_;
  std::string fingerprint_;
  TokenizerFiles files_;

  mutable std::mutex idle_mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_;  // in use by no call
};

}  // namespace colossal::text
