#include "colossal/text/bpe_model.h"

#include <algorithm>
#include <functional>

#include "colossal/base/error.h"
#include "colossal/text/byte_alphabet.h"
#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

constexpr int32_t kNone = -1;
constexpr int32_t kMerged = -2;  // Symbol::token of one that its left neighbour has swallowed

void append(int32_t token, std::vector<BpeModel::Scratch::Symbol>& symbols) {
  const auto position = static_cast<int32_t>(symbols.size());
  symbols.push_back({token, position - 1, position + 1});
}

// Whether kSpaceMark follows another character anywhere.
bool has_space_mark_within(std::string_view token) {
  constexpr std::string_view kMark = BpeModel::kSpaceMark;
  for (size_t at = token.find(kMark); at != std::string_view::npos;
       at = token.find(kMark, at + 1)) {
    if (at > 0 && !token.substr(0, at).ends_with(kMark)) return true;
  }
  return false;
}

}  // namespace

BpeModel::BpeModel(const BpeDefinition& definition, const std::string& file)
    : byte_level_(definition.byte_level),
      fuse_unknown_(definition.fuse_unknown),
      ranks_(definition.merges.size()) {
  token_of_byte_.fill(kNone);
  const auto vocabulary = definition.index();
  read_merges(definition, vocabulary, file);
  if (byte_level_) {
    read_bytes(vocabulary);
  } else {
    read_characters(definition, vocabulary);
  }
  read_unknown(definition, vocabulary, file);
  if (!definition.ignore_merges) return;
  for (const auto& [token, id] : definition.vocabulary) {
    auto word = byte_level_ ? from_byte_alphabet(token) : token;
    if (word) whole_words_.emplace(std::move(*word), id);
  }
}

void BpeModel::read_merges(const BpeDefinition& definition, const Vocabulary& vocabulary,
                           const std::string& file) {
  for (size_t rank = 0; rank < definition.merges.size(); ++rank) {
    const auto& [left, right] = definition.merges[rank];
    const auto id_of = [&](const std::string& token) {
      const auto found = vocabulary.find(token);
      if (found != vocabulary.end()) return found->second;
      throw ConfigError(
          fmt::format("{}: model.merges[{}] (\"{}\" \"{}\") needs the token \"{}\", which "
                      "model.vocab lacks",
                      file, rank, left, right, token));
    };
    ranks_.insert(id_of(left), id_of(right), static_cast<uint32_t>(rank));
    result_of_rank_.push_back(id_of(left + right));
  }
}

void BpeModel::read_bytes(const Vocabulary& vocabulary) {
  for (int byte = 0; byte < 256; ++byte) {
    const char value = static_cast<char>(byte);
    const auto found = vocabulary.find(to_byte_alphabet({&value, 1}));
    if (found != vocabulary.end()) token_of_byte_[byte] = found->second;
  }
}

void BpeModel::read_characters(const BpeDefinition& definition, const Vocabulary& vocabulary) {
  for (const auto& [token, id] : definition.vocabulary) {
    size_t end = 0;
    if (token.empty()) continue;
    const char32_t character = next_code_point(token, end);
    if (end == token.size()) token_of_character_[character] = id;
  }
  for (int byte = 0; byte < 256 && definition.byte_fallback; ++byte) {
    const auto found = vocabulary.find(fmt::format("<0x{:02X}>", byte));
    if (found != vocabulary.end()) token_of_byte_[byte] = found->second;
  }
  const auto crosses = [](const auto& merge) {
    return has_space_mark_within(merge.first + merge.second);
  };
  parts_at_space_marks_ = !definition.ignore_merges && vocabulary.contains(kSpaceMark) &&
                          std::ranges::none_of(definition.merges, crosses);
}

void BpeModel::read_unknown(const BpeDefinition& definition, const Vocabulary& vocabulary,
                            const std::string& file) {
  const bool has_all_bytes = std::ranges::find(token_of_byte_, kNone) == token_of_byte_.end();
  if (has_all_bytes) return;
  if (byte_level_ && definition.byte_fallback) {
    throw ConfigError(fmt::format(
        "{}: model.byte_fallback is true, and model.vocab lacks some of the 256 bytes of "
        "\"ByteLevel\"; one of the two must be otherwise",
        file));
  }
  if (!definition.unknown_token) return;
  const auto unknown = vocabulary.find(*definition.unknown_token);
  if (unknown == vocabulary.end()) {
    throw ConfigError(
        fmt::format("{}: model.vocab lacks some {}, and model.unk_token \"{}\" as well", file,
                    byte_level_ ? "bytes" : "characters", *definition.unknown_token));
  }
  unknown_ = unknown->second;
}

void BpeModel::encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& tokens) const {
  if (const auto whole = whole_words_.find(word); whole != whole_words_.end()) {
    tokens.push_back(whole->second);
    return;
  }
  make_symbols(word, scratch);
  auto& [symbols, queue] = scratch;
  queue.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) push_pair(static_cast<int32_t>(i), scratch);
  // A binary heap with the lowest rank first, and the leftmost of equal ranks.
  while (!queue.empty()) {
    std::ranges::pop_heap(queue, std::greater<>());
    const auto rank = static_cast<uint32_t>(queue.back() >> 32);
    const auto position = static_cast<int32_t>(queue.back() & 0xFFFFFFFFu);
    queue.pop_back();
    const Scratch::Symbol& left = symbols[position];
    if (left.token == kMerged || left.next == kNone) continue;
    // The entry may be older than its neighbours; it counts if it would still give the same token.
    const uint32_t current = ranks_.rank(left.token, symbols[left.next].token);
    if (current == PairTable::kAbsent || result_of_rank_[current] != result_of_rank_[rank])
      continue;
    merge(position, result_of_rank_[rank], scratch);
  }
  for (const Scratch::Symbol& symbol : symbols) {
    if (symbol.token != kMerged) tokens.push_back(symbol.token);
  }
}

void BpeModel::make_symbols(std::string_view word, Scratch& scratch) const {
  if (word.size() >= (size_t{1} << 31)) {
    throw ConfigError(fmt::format(
        "a text of {} bytes has no place where the tokenizer would cut it; 2 GiB is too long",
        word.size()));
  }
  scratch.symbols.clear();
  if (byte_level_) {
    make_byte_symbols(word, scratch);
  } else {
    make_character_symbols(word, scratch);
  }
  if (!scratch.symbols.empty()) scratch.symbols.back().next = kNone;
}

void BpeModel::make_byte_symbols(std::string_view word, Scratch& scratch) const {
  bool after_unknown = false;
  for (char byte : word) {
    int32_t token = token_of_byte_[static_cast<uint8_t>(byte)];
    const bool is_unknown = token == kNone;
    if (is_unknown) {
      if (unknown_ == kNone) continue;
      token = unknown_;
    }
    const bool fused = is_unknown && after_unknown && fuse_unknown_;
    after_unknown = is_unknown;
    if (!fused) append(token, scratch.symbols);
  }
}

void BpeModel::make_character_symbols(std::string_view word, Scratch& scratch) const {
  // As in `tokenizers`, an unknown character waits for the next one: bytes that others fall back to
  // come before it.
  bool unknown_waits = false;
  const auto give_unknown = [&] {
    if (unknown_waits) append(unknown_, scratch.symbols);
    unknown_waits = false;
  };
  for (size_t position = 0; position < word.size();) {
    const size_t begin = position;
    const auto found = token_of_character_.find(next_code_point(word, position));
    if (found != token_of_character_.end()) {
      give_unknown();
      append(found->second, scratch.symbols);
    } else if (!append_bytes(word.substr(begin, position - begin), scratch) && unknown_ != kNone) {
      if (!fuse_unknown_) give_unknown();
      unknown_waits = true;
    }
  }
  give_unknown();
}

// Whether each byte of the character has a token.
bool BpeModel::append_bytes(std::string_view character, Scratch& scratch) const {
  const auto token_of = [&](char byte) { return token_of_byte_[static_cast<uint8_t>(byte)]; };
  for (char byte : character) {
    if (token_of(byte) == kNone) return false;
  }
  for (char byte : character) append(token_of(byte), scratch.symbols);
  return true;
}

void BpeModel::push_pair(int32_t left_position, Scratch& scratch) const {
  const Scratch::Symbol& left = scratch.symbols[left_position];
  const uint32_t rank = ranks_.rank(left.token, scratch.symbols[left.next].token);
  if (rank == PairTable::kAbsent) return;
  scratch.queue.push_back(uint64_t{rank} << 32 | static_cast<uint32_t>(left_position));
  std::ranges::push_heap(scratch.queue, std::greater<>());
}

// Joins the symbol at `position` with its right neighbour.
void BpeModel::merge(int32_t position, int32_t result, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  Scratch::Symbol& left = symbols[position];
  Scratch::Symbol& right = symbols[left.next];
  left.token = result;
  left.next = right.next;
  right.token = kMerged;
  if (left.next != kNone) symbols[left.next].previous = position;
  if (left.previous != kNone) push_pair(left.previous, scratch);
  if (left.next != kNone) push_pair(position, scratch);
}

}  // namespace colossal::text
