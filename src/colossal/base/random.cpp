#include "colossal/base/random.h"

#include "colossal/base/inverse_normal.h"

namespace colossal {
namespace {

uint32_t low_word(uint64_t value) {
  return static_cast<uint32_t>(value);
}
uint32_t high_word(uint64_t value) {
  return static_cast<uint32_t>(value >> 32);
}

// Hashes by FNV-1a.
uint64_t name_hash(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char letter : name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  }
  return hash;
}

RandomBlock block_at(RandomKey key, uint64_t first, uint64_t second) {
  return philox(key, {{low_word(first), high_word(first), low_word(second), high_word(second)}});
}

}  // namespace

// A key is itself a Philox block: the name's hash is its key, and (seed, step) is its counter.
RandomKey random_key(uint64_t seed, uint64_t step, std::string_view stream) {
  const uint64_t name = name_hash(stream);
  const RandomBlock block = block_at({low_word(name), high_word(name)}, seed, step);
  return {block.word[0], block.word[1]};
}

RandomKey random_subkey(RandomKey key, uint64_t index) {
  // Rows of tensors do not use this block: only the last block of a full row, of 2^34 words, has
  // 2^32 - 1 as its last counter word.
  const RandomBlock block = block_at(key, index, ~uint64_t{0});
  return {block.word[0], block.word[1]};
}

RandomRow random_row(RandomKey key, uint64_t major, uint32_t minor) {
  return {key, {low_word(major), high_word(major), minor}};
}

double random_uniform(RandomKey key, uint64_t first, uint64_t second) {
  const RandomBlock block = block_at(key, first, second);
  const uint64_t bits = (uint64_t{block.word[0]} << 21) | (block.word[1] >> 11);
  return static_cast<double>(bits) * 0x1p-53;
}

double random_normal(RandomKey key, uint64_t first, uint64_t second) {
  const RandomBlock block = block_at(key, first, second);
  return inverse_normal_cdf(open_uniform(block.word[0], block.word[1]));
}

}  // namespace colossal
