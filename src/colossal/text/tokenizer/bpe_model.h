// Byte-pair encoding (BPE) of one word: starts with the tokens of the word's bytes or characters,
// then merges adjacent tokens. Sources: Sennrich et al., "Neural Machine Translation of Rare Words
// with Subword Units", 2016; Radford et al., "Language Models are Unsupervised Multitask Learners",
// 2019, for merges of bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "colossal/text/tokenizer/fallback_bytes.h"
#include "colossal/text/tokenizer/pair_table.h"
#include "colossal/text/tokenizer/word_model.h"

namespace colossal::text {

// The word model "BPE". The order of merges is that of the `tokenizers` library: the pair with the
// lowest rank (the index of its merge in the definition) first, and of equal ranks the leftmost
// pair. All pairs that can merge are in a queue. If other merges have changed a pair in the queue
// by the time its turn comes, the new pair at its place is merged only if it merges into the same
// token as the old pair.
class BpeModel : public WordModel {
 public:
  // definition.model must be a BpeDefinition. file: path of the tokenizer.json, for error messages.
  // Throws ConfigError
  // - if the vocabulary lacks a token that a merge takes or produces;
  // - if `byte_level` and `byte_fallback` are both set and a byte has no token;
  // - if `unknown_token` is set, the vocabulary lacks it, and a byte has no token (byte-level BPE)
  //   or no fallback token (character-level BPE).
  BpeModel(const TokenizerDefinition& definition, const std::string& file);

  std::unique_ptr<WordModel::Scratch> make_scratch() const override;
  // Appends the tokens of the non-empty `word` to `tokens`. scratch: from make_scratch(). Takes
  // O(n log n) time for a word of n bytes. Throws ConfigError if the word has 2 GiB or more.
  void encode(std::string_view word, WordModel::Scratch& scratch,
              std::vector<int32_t>& tokens) const override;
  // Whether a word may be cut before every run of kSpaceMark (word_model.h) without a change to its
  // tokens.
  bool can_cut_at_space_marks() const override { return can_cut_at_space_marks_; }

 private:
  // A token of the partly merged word: a node of a doubly linked list within Scratch::symbols.
  struct Symbol {
    int32_t token;           // token id; -2: this symbol was merged into its left neighbor
    int32_t previous, next;  // indices in `symbols` of the neighbors; -1: none
  };
  struct Scratch : WordModel::Scratch {
    std::vector<Symbol> symbols;  // in the order of the word's bytes or characters
    // Binary min-heap of possible merges. An entry is rank << 32 | index of the left symbol.
    std::vector<uint64_t> queue;
    std::vector<int32_t> bytes;  // fallback tokens of one character
  };

  // Lets Words find a std::string_view.
  struct BytesHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Words = std::unordered_map<std::string, int32_t, BytesHash, std::equal_to<>>;

  // Token id by the token's text in the vocabulary.
  using TokenIds = std::unordered_map<std::string_view, int32_t>;

  void read_merges(const BpeDefinition& model, const TokenIds& numbers, const std::string& file);
  void read_bytes(const TokenIds& numbers);
  void read_characters(const BpeDefinition& model, const Vocabulary& vocabulary);
  bool has_all_byte_tokens() const;
  void read_unknown(const BpeDefinition& model, const TokenIds& numbers, const std::string& file);
  // Appends a symbol that is linked to its neighbors by index.
  static void append(int32_t token, std::vector<Symbol>& symbols);
  void make_symbols(std::string_view word, Scratch& scratch) const;
  void make_byte_symbols(std::string_view word, Scratch& scratch) const;
  void make_character_symbols(std::string_view word, Scratch& scratch) const;
  // Appends the fallback tokens of the character's bytes and returns true; if a byte has no
  // fallback token, appends nothing and returns false.
  bool append_bytes(std::string_view character, Scratch& scratch) const;
  // Queues the merge of the symbol with its right neighbor, if there is such a merge.
  void push_pair(int32_t left_position, Scratch& scratch) const;
  // Merges the symbol at `position` with its right neighbor into the token `result`, and queues the
  // merges that this makes possible.
  void merge(int32_t position, int32_t result, Scratch& scratch) const;

  bool byte_level_;
  bool can_cut_at_space_marks_ = false;
  // Token id by byte; -1 if the byte has no token. Used by byte-level BPE only.
  std::array<int32_t, 256> token_of_byte_;
  FallbackBytes fallback_bytes_;                              // used by character-level BPE only
  std::unordered_map<char32_t, int32_t> token_of_character_;  // used by character-level BPE only
  int32_t unknown_ = -1;  // id of the unknown token; -1: unknown bytes and characters are dropped
  bool fuse_unknown_;     // a run of unknown bytes or characters becomes one unknown token
  PairTable ranks_;       // rank of the merge of two tokens: the merge's index in the definition
  std::vector<int32_t> result_of_rank_;  // by rank: the token that the merge produces
  // Token id by the bytes that the token encodes; empty unless the definition has ignore_merges. A
  // word that is in this table is encoded as this one token.
  Words whole_words_;
};

}  // namespace colossal::text
