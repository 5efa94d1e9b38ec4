// Byte-pair encoding of one word, by bytes or by characters.
// Sources: Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", 2016;
// Radford et al. 2019 for the byte level. Merges as the `tokenizers` library makes them, stale
// queue entries included.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "colossal/text/pair_table.h"
#include "colossal/text/tokenizer_definition.h"

namespace colossal::text {

class BpeModel {
 public:
  // Working memory of encode(); one thread at a time.
  struct Scratch {
    struct Symbol {
      int32_t token;
      int32_t previous, next;  // -1: none
    };
    std::vector<Symbol> symbols;
    std::vector<uint64_t> queue;
  };

  // Throws ConfigError where the vocabulary lacks a token of a merge, or those of bytes that the
  // definition needs.
  BpeModel(const BpeDefinition& definition, const std::string& file);

  // Appends the tokens of the word, in O(n log n). Throws ConfigError where it has 2 GiB or more.
  void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& tokens) const;

  // U+2581, which stands for a space in most vocabularies of characters.
  static constexpr std::string_view kSpaceMark = "\u2581";
  // Whether nothing merges across the beginning of a run of kSpaceMark: a word may be cut there
  // without any change to its tokens. (A vocabulary of characters often has no pre-tokenizer, so
  // that a whole text is one word.)
  bool parts_at_space_marks() const { return parts_at_space_marks_; }

 private:
  struct BytesHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Words = std::unordered_map<std::string, int32_t, BytesHash, std::equal_to<>>;

  using Vocabulary = std::unordered_map<std::string_view, int32_t>;

  void read_merges(const BpeDefinition& definition, const Vocabulary& vocabulary,
                   const std::string& file);
  void read_bytes(const Vocabulary& vocabulary);
  void read_characters(const BpeDefinition& definition, const Vocabulary& vocabulary);
  void read_unknown(const BpeDefinition& definition, const Vocabulary& vocabulary,
                    const std::string& file);
  void make_symbols(std::string_view word, Scratch& scratch) const;
  void make_byte_symbols(std::string_view word, Scratch& scratch) const;
  void make_character_symbols(std::string_view word, Scratch& scratch) const;
  bool append_bytes(std::string_view character, Scratch& scratch) const;
  void push_pair(int32_t left_position, Scratch& scratch) const;
  void merge(int32_t position, int32_t result, Scratch& scratch) const;

  bool byte_level_;
  bool parts_at_space_marks_ = false;
  std::array<int32_t, 256> token_of_byte_;  // -1: none. Not byte-level: those of byte fallback
  std::unordered_map<char32_t, int32_t> token_of_character_;  // not byte-level
  int32_t unknown_ = -1;                                      // -1: what is unknown is left out
  bool fuse_unknown_;
  PairTable ranks_;
  std::vector<int32_t> result_of_rank_;
  Words whole_words_;  // filled where a word that is a token is taken whole
};

}  // namespace colossal::text
