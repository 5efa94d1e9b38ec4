#include "colossal/text/bpe_model.h"

#include <algorithm>
#include <functional>

#include "colossal/base/error.h"
#include "colossal/text/byte_alphabet.h"

namespace colossal::text {
namespace {

constexpr int32_t kNone = -1;
constexpr int32_t kMerged = -2;  // Symbol::token of one that its left neighbour has swallowed

}  // namespace

BpeModel::BpeModel(const BpeDefinition& definition, const std::string& file)
    : fuse_unknown_(definition.fuse_unknown), ranks_(definition.merges.size()) {
  const auto vocabulary = definition.index();
  read_merges(definition, vocabulary, file);
  read_bytes(definition, vocabulary, file);
  if (!definition.ignore_merges) return;
  for (const auto& [token, id] : definition.vocabulary) {
    if (auto bytes = from_byte_alphabet(token)) whole_words_.emplace(std::move(*bytes), id);
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

void BpeModel::read_bytes(const BpeDefinition& definition, const Vocabulary& vocabulary,
                          const std::string& file) {
  token_of_byte_.fill(kNone);
  bool complete = true;
  for (int byte = 0; byte < 256; ++byte) {
    const char value = static_cast<char>(byte);
    const auto found = vocabulary.find(to_byte_alphabet({&value, 1}));
    if (found != vocabulary.end()) token_of_byte_[byte] = found->second;
    complete = complete && found != vocabulary.end();
  }
  if (complete || !definition.unknown_token) return;
  const auto unknown = vocabulary.find(*definition.unknown_token);
  if (unknown == vocabulary.end()) {
    throw ConfigError(
        fmt::format("{}: model.vocab lacks some bytes, and model.unk_token \"{}\" as well", file,
                    *definition.unknown_token));
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
  COLOSSAL_CHECK(word.size() < (size_t{1} << 31), "a word of {} bytes", word.size());
  auto& symbols = scratch.symbols;
  symbols.clear();
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
    if (fused) continue;
    const auto position = static_cast<int32_t>(symbols.size());
    symbols.push_back({token, position - 1, position + 1});
  }
  if (!symbols.empty()) symbols.back().next = kNone;
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
