// Byte-pair encoding of one word, over bytes or characters. Sources: Sennrich et al., "Neural
// Machine Translation of Rare Words with Subword Units", 2016; Radford et al., 2019, for the byte
// level. Merges are applied in the order of the `tokenizers` library. As there, a queued merge
// whose pair has changed is still applied if the new pair merges into the same token.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "colossal/text/fallback_bytes.h"
#include "colossal/text/pair_table.h"
#include "colossal/text/word_model.h"

namespace colossal::text {

class BpeModel : public WordModel {
 public:
  // definition.model must be a BpeDefinition. file: for error messages. Throws ConfigError if the
  // vocabulary lacks a token that a merge takes or produces; if a byte-level model with
  // byte_fallback lacks a byte; or if the definition names an unknown token that is needed but
  // missing.
  BpeModel(const TokenizerDefinition& definition, const std::string& file);

  std::unique_ptr<WordModel::Scratch> make_scratch() const override;
  void encode(std::string_view word, WordModel::Scratch& scratch,
              std::vector<int32_t>& tokens) const override;  // O(n log n) in the word's bytes
  bool can_cut_at_space_marks() const override { return can_cut_at_space_marks_; }

 private:
  // A token of the partly merged word, in a doubly linked list.
  struct Symbol {
    int32_t token;           // -2: merged into its left neighbor
    int32_t previous, next;  // indices of the neighbors; -1: none
  };
  struct Scratch : WordModel::Scratch {
    std::vector<Symbol> symbols;
    std::vector<uint64_t> queue;  // heap of possible merges: rank << 32 | index of the left symbol
    std::vector<int32_t> bytes;   // byte tokens of one character
  };

  struct BytesHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Words = std::unordered_map<std::string, int32_t, BytesHash, std::equal_to<>>;

  using TokenIds = std::unordered_map<std::string_view, int32_t>;

  void read_merges(const BpeDefinition& model, const TokenIds& numbers, const std::string& file);
  void read_bytes(const TokenIds& numbers);
  void read_characters(const BpeDefinition& model, const Vocabulary& vocabulary);
  bool knows_all_bytes() const;
  void read_unknown(const BpeDefinition& model, const TokenIds& numbers, const std::string& file);
  static void append(int32_t token, std::vector<Symbol>& symbols);
  void make_symbols(std::string_view word, Scratch& scratch) const;
  void make_byte_symbols(std::string_view word, Scratch& scratch) const;
  void make_character_symbols(std::string_view word, Scratch& scratch) const;
  bool append_bytes(std::string_view character, Scratch& scratch) const;
  void push_pair(int32_t left_position, Scratch& scratch) const;
  void merge(int32_t position, int32_t result, Scratch& scratch) const;

  bool byte_level_;
  bool can_cut_at_space_marks_ = false;
  std::array<int32_t, 256> token_of_byte_;                    // byte-level only; -1: none
  FallbackBytes fallback_bytes_;                              // character-level only
  std::unordered_map<char32_t, int32_t> token_of_character_;  // character-level only
  int32_t unknown_ = -1;  // -1: bytes and characters without a token are dropped
  bool fuse_unknown_;
  PairTable ranks_;                      // a merge's rank is its index in the definition
  std::vector<int32_t> result_of_rank_;  // by rank: the token that the merge produces
  // With ignore_merges: the id of each token by its text. A word that is in this table is encoded
  // as that one token.
  Words whole_words_;
};

}  // namespace colossal::text
