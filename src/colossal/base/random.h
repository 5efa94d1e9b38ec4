// Counter-based random numbers, for initial weights, dropout and sampling. Each number is a pure
// function of a key and a counter. Each rank can therefore compute only its shard of a tensor, in
// any order, and gets the same bits as a single rank.
//
// Generator: Philox4x32-10, J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011. It maps a key (RandomKey) and a counter of four 32-bit words to a block of four random
// 32-bit words (RandomBlock).
//
// The random numbers of a tensor form rows of up to 2^34 words of 32 bits. The words of a row form
// groups of 64: word w of a row is word (w / 16) % 4 of the Philox block whose last counter word is
// 16 * (w / 64) + w % 16. So 16 blocks that are computed side by side give four runs of 16
// consecutive words, which suits any vector width.
#pragma once

#include <cstdint>
#include <string_view>

namespace colossal {

struct RandomKey {
  uint32_t low = 0;
  uint32_t high = 0;
  bool operator==(const RandomKey&) const = default;
};

// Four words: a counter, or the random words for a counter.
struct RandomBlock {
  uint32_t word[4];
};

// Names a row of random words. The fourth word of the counter numbers the blocks of the row.
struct RandomRow {
  RandomKey key;
  uint32_t name[3];  // the first three words of the counter
};

inline constexpr int64_t kRandomGroup = 64;        // words in a group
inline constexpr int64_t kRandomGroupBlocks = 16;  // blocks in a group

// Some sources that include this header are compiled for a wider instruction set than the rest of
// the program. The inline functions are therefore always_inline: an out-of-line copy with such
// instructions could be linked into the rest of the program. philox() is constexpr, so that GPU
// code may call it.

// Returns the random block for `key` and `counter`.
[[gnu::always_inline]] constexpr RandomBlock philox(RandomKey key, RandomBlock counter) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * counter.word[0];
    const uint64_t second = uint64_t{0xCD9E8D57} * counter.word[2];
    counter = {{static_cast<uint32_t>(second >> 32) ^ counter.word[1] ^ key.low,
                static_cast<uint32_t>(second),
                static_cast<uint32_t>(first >> 32) ^ counter.word[3] ^ key.high,
                static_cast<uint32_t>(first)}};
    key.low += 0x9E3779B9;
    key.high += 0xBB67AE85;
  }
  return counter;
}

// Writes the 64 words of group number `group` of a row, words 64 * group to 64 * group + 63 of the
// row, to words[0] to words[63]. group: below 2^28.
[[gnu::always_inline]] inline void random_words(const RandomRow& row, uint32_t group,
                                                uint32_t* words) {
  for (uint32_t i = 0; i < kRandomGroupBlocks; ++i) {
    const RandomBlock block =
        philox(row.key, {{row.name[0], row.name[1], row.name[2],
                          group * static_cast<uint32_t>(kRandomGroupBlocks) + i}});
    words[i] = block.word[0];
    words[i + 16] = block.word[1];
    words[i + 32] = block.word[2];
    words[i + 48] = block.word[3];
  }
}

// Returns 52 random bits as a double in (0, 1), never 0 or 1: the 32 bits of `high` and the upper
// 20 bits of `low`. The conversion is exact, and the values are exactly symmetric about 1/2.
[[gnu::always_inline]] inline double open_uniform(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high} << 20) | (low >> 12);
  return (__builtin_bit_cast(double, uint64_t{0x3FF} << 52 | bits) - 1.0) + 0x1p-53;
}

// Returns the key of a stream of random numbers. step: the training step, or another counter such
// as an epoch. stream: name of the stream, such as the name of a layer. Streams with different
// seeds, steps or names are independent.
RandomKey random_key(uint64_t seed, uint64_t step, std::string_view stream);

// Returns the key of substream number `index` of the stream with key `key`, for example of one head
// of an attention layer. The substreams are independent of each other and of the stream of `key`.
RandomKey random_subkey(RandomKey key, uint64_t index);

// Returns the row of a stream at the coordinates (major, minor), for example (sample, position).
RandomRow random_row(RandomKey key, uint64_t major, uint32_t minor);

// Return the single number of a stream at the coordinates (first, second): uniform in [0, 1), or
// standard normal. Draw only uniform numbers, only normal numbers or only rows from a stream: all
// three are made of the same blocks.
double random_uniform(RandomKey key, uint64_t first, uint64_t second);
double random_normal(RandomKey key, uint64_t first, uint64_t second);

}  // namespace colossal
