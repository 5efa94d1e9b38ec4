#include "colossal/text/tokenizer/bpe_model.h"

#include <algorithm>
#include <functional>

#include "colossal/base/error.h"
#include "colossal/text/tokenizer/byte_alphabet.h"
#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

constexpr int32_t kNone = -1;
// Symbol::token of a symbol that was merged into its left neighbour.
constexpr int32_t kMerged = -2;

// Whether kSpaceMark follows a character other than itself in the token.
bool has_space_mark_within(std::string_view token) {
  constexpr std::string_view kMark = WordModel::kSpaceMark;
  for (size_t at = token.find(kMark); at != std::string_view::npos;
       at = token.find(kMark, at + 1)) {
    if (at > 0 && !token.substr(0, at).ends_with(kMark)) return true;
  }
  return false;
}

}  // namespace

BpeModel::BpeModel(const TokenizerDefinition& definition, const std::string& file)
    : byte_level_(definition.byte_level),
      fuse_unknown_(std::get<BpeDefinition>(definition.model).fuse_unknown),
      ranks_(std::get<BpeDefinition>(definition.model).merges.size()) {
  token_of_byte_.fill(kNone);
  const auto& model = std::get<BpeDefinition>(definition.model);
  const TokenIds numbers = index_of(definition.vocabulary);
  read_merges(model, numbers, file);
  if (byte_level_) {
    read_bytes(numbers);
  } else {
    read_characters(model, definition.vocabulary);
  }
  read_unknown(model, numbers, file);
  if (!model.ignore_merges) return;
  for (const auto& [token, id] : definition.vocabulary) {
    auto word = byte_level_ ? from_byte_alphabet(token) : token;
    if (word) whole_words_.emplace(std::move(*word), id);
  }
}

std::unique_ptr<WordModel::Scratch> BpeModel::make_scratch() const {
  return std::make_unique<Scratch>();
}

void BpeModel::read_merges(const BpeDefinition& model, const TokenIds& numbers,
                           const std::string& file) {
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    const auto& [left, right] = model.merges[rank];
    const auto id_of = [&](const std::string& token) {
      const auto found = numbers.find(token);
      if (found != numbers.end()) return found->second;
      throw ConfigError(
          fmt::format("{}: model.merges[{}] (\"{}\" \"{}\") needs the token \"{}\", which "
                      "model.vocab lacks",
                      file, rank, left, right, token));
    };
    ranks_.insert(id_of(left), id_of(right), static_cast<uint32_t>(rank));
    result_of_rank_.push_back(id_of(left + right));
  }
}

void BpeModel::read_bytes(const TokenIds& numbers) {
  for (int byte = 0; byte < 256; ++byte) {
    const char value = static_cast<char>(byte);
    const auto found = numbers.find(to_byte_alphabet({&value, 1}));
    if (found != numbers.end()) token_of_byte_[byte] = found->second;
  }
}

void BpeModel::read_characters(const BpeDefinition& model, const Vocabulary& vocabulary) {
  bool has_space_mark = false;
  for (const auto& [token, id] : vocabulary) {
    size_t end = 0;
    if (token.empty()) continue;
    const char32_t character = next_code_point(token, end);
    if (end == token.size()) token_of_character_[character] = id;
    has_space_mark |= token == kSpaceMark;
  }
  if (model.byte_fallback) fallback_bytes_ = FallbackBytes(vocabulary);
  const auto crosses = [](const auto& merge) {
    return has_space_mark_within(merge.first + merge.second);
  };
  can_cut_at_space_marks_ =
      !model.ignore_merges && has_space_mark && std::ranges::none_of(model.merges, crosses);
}

bool BpeModel::has_all_byte_tokens() const {
  if (!byte_level_) return fallback_bytes_.has_all();
  return std::ranges::find(token_of_byte_, kNone) == token_of_byte_.end();
}

void BpeModel::read_unknown(const BpeDefinition& model, const TokenIds& numbers,
                            const std::string& file) {
  if (has_all_byte_tokens()) return;
  if (byte_level_ && model.byte_fallback) {
    throw ConfigError(fmt::format(
        "{}: model.byte_fallback is true, and model.vocab lacks some of the 256 bytes of "
        "\"ByteLevel\"; one of the two must be otherwise",
        file));
  }
  if (!model.unknown_token) return;
  const auto unknown = numbers.find(*model.unknown_token);
  if (unknown == numbers.end()) {
    throw ConfigError(
        fmt::format("{}: model.vocab lacks some {}, and model.unk_token \"{}\" as well", file,
                    byte_level_ ? "bytes" : "characters", *model.unknown_token));
  }
  unknown_ = unknown->second;
}

void BpeModel::encode(std::string_view word, WordModel::Scratch& any_scratch,
                      std::vector<int32_t>& tokens) const {
  auto& scratch = static_cast<Scratch&>(any_scratch);
  if (const auto whole = whole_words_.find(word); whole != whole_words_.end()) {
    tokens.push_back(whole->second);
    return;
  }
  make_symbols(word, scratch);
  auto& symbols = scratch.symbols;
  auto& queue = scratch.queue;
  queue.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) push_pair(static_cast<int32_t>(i), scratch);
  // A binary heap: the lowest rank is first; of equal ranks, the leftmost position.
  while (!queue.empty()) {
    std::ranges::pop_heap(queue, std::greater<>());
    const auto rank = static_cast<uint32_t>(queue.back() >> 32);
    const auto position = static_cast<int32_t>(queue.back() & 0xFFFFFFFFu);
    queue.pop_back();
    const Symbol& left = symbols[position];
    if (left.token == kMerged || left.next == kNone) continue;
    // The neighbours may have changed since the entry was pushed. It counts if the pair still
    // merges to the same token.
    const uint32_t current = ranks_.rank(left.token, symbols[left.next].token);
    if (current == PairTable::kAbsent || result_of_rank_[current] != result_of_rank_[rank])
      continue;
    merge(position, result_of_rank_[rank], scratch);
  }
  for (const Symbol& symbol : symbols) {
    if (symbol.token != kMerged) tokens.push_back(symbol.token);
  }
}

void BpeModel::append(int32_t token, std::vector<Symbol>& symbols) {
  const auto position = static_cast<int32_t>(symbols.size());
  symbols.push_back({token, position - 1, position + 1});
}

void BpeModel::make_symbols(std::string_view word, Scratch& scratch) const {
  check_length(word);
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
  // As in `tokenizers`, an unknown token is appended only before the next known character or
  // unknown token. Byte tokens of characters in between thus come before it.
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

// Appends the byte tokens of a character. Returns false, and appends nothing, if a byte has no
// token.
bool BpeModel::append_bytes(std::string_view character, Scratch& scratch) const {
  scratch.bytes.clear();
  if (!fallback_bytes_.append(character, scratch.bytes)) return false;
  for (int32_t token : scratch.bytes) append(token, scratch.symbols);
  return true;
}

void BpeModel::push_pair(int32_t left_position, Scratch& scratch) const {
  const Symbol& left = scratch.symbols[left_position];
  const uint32_t rank = ranks_.rank(left.token, scratch.symbols[left.next].token);
  if (rank == PairTable::kAbsent) return;
  scratch.queue.push_back(uint64_t{rank} << 32 | static_cast<uint32_t>(left_position));
  std::ranges::push_heap(scratch.queue, std::greater<>());
}

// Merges the symbol at `position` with its right neighbour.
void BpeModel::merge(int32_t position, int32_t result, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  Symbol& left = symbols[position];
  Symbol& right = symbols[left.next];
  left.token = result;
  left.next = right.next;
  right.token = kMerged;
  if (left.next != kNone) symbols[left.next].previous = position;
  if (left.previous != kNone) push_pair(left.previous, scratch);
  if (left.next != kNone) push_pair(position, scratch);
}

}  // namespace colossal::text
