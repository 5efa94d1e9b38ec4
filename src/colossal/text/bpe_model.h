// Byte-level byte-pair encoding of one word.
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

  // Throws ConfigError where a merge names a token that the vocabulary lacks.
  BpeModel(const BpeDefinition& definition, const std::string& file);

  // Appends the tokens of the word's bytes, in O(n log n). The word must be shorter than 2 GiB.
  void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& tokens) const;

 private:
  struct BytesHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Words = std::unordered_map<std::string, int32_t, BytesHash, std::equal_to<>>;

  using Vocabulary = std::unordered_map<std::string_view, int32_t>;

  void read_merges(const BpeDefinition& definition, const Vocabulary& vocabulary,
                   const std::string& file);
  void read_bytes(const BpeDefinition& definition, const Vocabulary& vocabulary,
                  const std::string& file);
  void make_symbols(std::string_view word, Scratch& scratch) const;
  void push_pair(int32_t left_position, Scratch& scratch) const;
  void merge(int32_t position, int32_t result, Scratch& scratch) const;

  std::array<int32_t, 256> token_of_byte_;
  int32_t unknown_ = -1;  // -1: unknown bytes are left out
  bool fuse_unknown_;
  PairTable ranks_;
  std::vector<int32_t> result_of_rank_;
  Words whole_words_;  // filled where a word that is a token is taken whole
};

}  // namespace colossal::text
