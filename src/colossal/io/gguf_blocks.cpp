#include "colossal/io/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "colossal/base/error.h"

namespace colossal::io {
namespace {

constexpr int kSmall = 32;   // elements of a block of q4_0 and q8_0
constexpr int kLarge = 256;  // elements of a block of q4_k and q6_k

// _Float16 is IEEE half precision on every CPU. It rounds to nearest, ties to even.
uint16_t to_half(float value) {
  return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
}

float from_half(uint16_t bits) {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}

uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 64);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float from_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

struct Q8_0 {
  uint16_t scale;
  std::array<int8_t, kSmall> codes;

  static constexpr int kNumbers = kSmall;

  void read(float* to) const {
    for (int i = 0; i < kSmall; ++i) to[i] = static_cast<float>(codes[i]) * from_half(scale);
  }

  static Q8_0 of(const float* from) {
    float most = 0;
    for (int i = 0; i < kSmall; ++i) most = std::max(most, std::abs(from[i]));
    const float step = most / 127, inverse = step == 0 ? 0 : 1 / step;
    Q8_0 block{.scale = to_half(step), .codes = {}};
    for (int i = 0; i < kSmall; ++i) {
      block.codes[i] = static_cast<int8_t>(std::round(from[i] * inverse));
    }
    return block;
  }
};

struct Q4_0 {
  uint16_t scale;
  std::array<uint8_t, kSmall / 2>
      codes;  // of element i in the low half, of element i + 16 in the high half

  static constexpr int kNumbers = kSmall;

  void read(float* to) const {
    const float step = from_half(scale);
    for (int i = 0; i < kSmall / 2; ++i) {
      to[i] = static_cast<float>((codes[i] & 15) - 8) * step;
      to[i + kSmall / 2] = static_cast<float>((codes[i] >> 4) - 8) * step;
    }
  }

  static Q4_0 of(const float* from) {
    float furthest = 0;
    for (int i = 0; i < kSmall; ++i) {
      if (std::abs(from[i]) > std::abs(furthest)) furthest = from[i];
    }
    const float step = furthest / -8, inverse = step == 0 ? 0 : 1 / step;
    // Computed in double, so that a CPU's fused multiply-add does not change the rounding.
    const auto code = [&](float number) {
      const double steps = static_cast<double>(number) * static_cast<double>(inverse) + 8.5;
      return static_cast<uint8_t>(std::clamp(static_cast<int>(steps), 0, 15));
    };
    Q4_0 block{.scale = to_half(step), .codes = {}};
    for (int i = 0; i < kSmall / 2; ++i) {
      block.codes[i] = static_cast<uint8_t>(code(from[i]) | code(from[i + kSmall / 2]) << 4);
    }
    return block;
  }
};

int nearest_integer(float value) {
  return static_cast<int>(std::nearbyint(value));
}

struct Q4K {
  uint16_t scale, minimum_scale;
  std::array<uint8_t, 12> groups;  // scale and minimum of each group, 6 bits each
  std::array<uint8_t, kLarge / 2> codes;

  static constexpr int kNumbers = kLarge, kGroups = 8, kGroup = 32, kMostSix = 63, kMostCode = 15;

  // Returns the scale and the minimum of a group. Groups 0 to 3 have a byte for each. Groups 4 to 7
  // have their lower 4 bits in the last 4 bytes, and their upper 2 bits in those of groups 0 to 3.
  std::pair<int, int> group(int index) const {
    if (index < 4) return {groups[index] & 63, groups[index + 4] & 63};
    return {(groups[index + 4] & 15) | (groups[index - 4] >> 6) << 4,
            groups[index + 4] >> 4 | (groups[index] >> 6) << 4};
  }

  void set_group(int index, int of_scale, int of_minimum) {
    if (index < 4) {
      groups[index] = static_cast<uint8_t>(groups[index] | of_scale);
      groups[index + 4] = static_cast<uint8_t>(groups[index + 4] | of_minimum);
      return;
    }
    groups[index + 4] = static_cast<uint8_t>((of_scale & 15) | (of_minimum & 15) << 4);
    groups[index - 4] = static_cast<uint8_t>(groups[index - 4] | (of_scale >> 4) << 6);
    groups[index] = static_cast<uint8_t>(groups[index] | (of_minimum >> 4) << 6);
  }

  // Two consecutive groups share 32 bytes: the first has their low halves, the second their high
  // ones.
  uint8_t* bytes_of(int index) { return codes.data() + index / 2 * kGroup; }

  void read(float* to) const {
    for (int index = 0; index < kGroups; ++index) {
      const auto [of_scale, of_minimum] = group(index);
      const float step = from_half(scale) * static_cast<float>(of_scale);
      const float minimum = from_half(minimum_scale) * static_cast<float>(of_minimum);
      const uint8_t* bytes = codes.data() + index / 2 * kGroup;
      for (int i = 0; i < kGroup; ++i) {
        const int code = index % 2 == 0 ? bytes[i] & 15 : bytes[i] >> 4;
        to[index * kGroup + i] = step * static_cast<float>(code) - minimum;
      }
    }
  }

  // An element is step * code - minimum.
  struct Range {
    float step, minimum;
  };

  static Range range_of(const float* from);

  static Q4K of(const float* from) {
    std::array<Range, kGroups> ranges{};
    float most_step = 0, most_minimum = 0;
    for (int index = 0; index < kGroups; ++index) {
      ranges[index] = range_of(from + index * kGroup);
      most_step = std::max(most_step, ranges[index].step);
      most_minimum = std::max(most_minimum, ranges[index].minimum);
    }
    Q4K block{.scale = to_half(most_step / kMostSix),
              .minimum_scale = to_half(most_minimum / kMostSix),
              .groups = {},
              .codes = {}};
    const auto six_bits = [](float value, float unit) {
      return unit == 0 ? 0 : std::clamp(nearest_integer(value / unit), 0, kMostSix);
    };
    for (int index = 0; index < kGroups; ++index) {
      block.set_group(index, six_bits(ranges[index].step, from_half(block.scale)),
                      six_bits(ranges[index].minimum, from_half(block.minimum_scale)));
    }
    for (int index = 0; index < kGroups; ++index) block.set_codes(index, from + index * kGroup);
    return block;
  }

  void set_codes(int index, const float* from) {
    const auto [of_scale, of_minimum] = group(index);
    const float step = from_half(scale) * static_cast<float>(of_scale);
    const float minimum = from_half(minimum_scale) * static_cast<float>(of_minimum);
    for (int i = 0; i < kGroup; ++i) {
      const int code =
          step == 0 ? 0 : std::clamp(nearest_integer((from[i] + minimum) / step), 0, kMostCode);
      uint8_t& byte = bytes_of(index)[i];
      byte = static_cast<uint8_t>(byte | (index % 2 == 0 ? code : code << 4));
    }
  }
};

// Tries ranges near that of the extremes. Returns the one with the least squared error.
Q4K::Range Q4K::range_of(const float* from) {
  float least = 0, most = 0;
  for (int i = 0; i < kGroup; ++i) {
    least = std::min(least, from[i]);
    most = std::max(most, from[i]);
  }
  if (most == least) return {0, -least};
  Range best{};
  double best_error = HUGE_VAL;
  constexpr int kTries = 20;
  for (int attempt = -kTries; attempt <= kTries; ++attempt) {
    const float start = (most - least) / (kMostCode + 0.05F * static_cast<float>(attempt));
    // The best step and minimum for these codes, by least squares.
    double sum = 0, sum_codes = 0, sum_squares = 0, sum_products = 0;
    for (int i = 0; i < kGroup; ++i) {
      const double code = std::clamp(nearest_integer((from[i] - least) / start), 0, kMostCode);
      sum += from[i];
      sum_codes += code;
      sum_squares += code * code;
      sum_products += code * from[i];
    }
    const double determinant = kGroup * sum_squares - sum_codes * sum_codes;
    if (determinant <= 0) continue;
    double step = (kGroup * sum_products - sum * sum_codes) / determinant;
    double minimum = -(sum - step * sum_codes) / kGroup;
    if (minimum < 0) {
      minimum = 0;
      step = sum_products / sum_squares;
    }
    if (step <= 0) continue;
    double error = 0;
    for (int i = 0; i < kGroup; ++i) {
      const double code = std::clamp(std::nearbyint((from[i] + minimum) / step), 0.0,
                                     static_cast<double>(kMostCode));
      error += std::pow(step * code - minimum - from[i], 2);
    }
    if (error < best_error) {
      best_error = error;
      best = {static_cast<float>(step), static_cast<float>(minimum)};
    }
  }
  return best_error < HUGE_VAL ? best : Range{(most - least) / kMostCode, -least};
}

struct Q6K {
  std::array<uint8_t, kLarge / 2> low;   // lower 4 bits of each code
  std::array<uint8_t, kLarge / 4> high;  // upper 2 bits of each code
  std::array<int8_t, 16> groups;         // scale of each group
  uint16_t scale;

  static constexpr int kNumbers = kLarge, kGroups = 16, kGroup = 16, kMiddle = 32;

  // Where the bits of an element's code are. The quarters of each half of the block share bytes.
  struct Place {
    int low, low_shift, high, high_shift;
  };
  static Place place(int index) {
    const int half = index / 128, quarter = index % 128 / 32, inside = index % 32;
    return {half * 64 + quarter % 2 * 32 + inside, quarter / 2 * 4, half * 32 + inside,
            quarter * 2};
  }

  void read(float* to) const {
    for (int i = 0; i < kLarge; ++i) {
      const Place at = place(i);
      const int code = (low[at.low] >> at.low_shift & 15) | (high[at.high] >> at.high_shift & 3)
                                                                << 4;
      to[i] = from_half(scale) * static_cast<float>(groups[i / kGroup]) *
              static_cast<float>(code - kMiddle);
    }
  }

  static float step_of(const float* from);

  static Q6K of(const float* from) {
    std::array<float, kGroups> steps{};
    float furthest = 0;
    for (int index = 0; index < kGroups; ++index) {
      steps[index] = step_of(from + index * kGroup);
      if (std::abs(steps[index]) > std::abs(furthest)) furthest = steps[index];
    }
    Q6K block{.low = {}, .high = {}, .groups = {}, .scale = to_half(furthest / -128)};
    const float unit = from_half(block.scale);
    for (int index = 0; index < kGroups; ++index) {
      block.groups[index] = static_cast<int8_t>(
          unit == 0 ? 0 : std::clamp(nearest_integer(steps[index] / unit), -128, 127));
    }
    for (int i = 0; i < kLarge; ++i) {
      const float step = unit * static_cast<float>(block.groups[i / kGroup]);
      const int code =
          step == 0 ? kMiddle
                    : std::clamp(nearest_integer(from[i] / step), -kMiddle, kMiddle - 1) + kMiddle;
      const Place at = place(i);
      block.low[at.low] = static_cast<uint8_t>(block.low[at.low] | (code & 15) << at.low_shift);
      block.high[at.high] =
          static_cast<uint8_t>(block.high[at.high] | (code >> 4) << at.high_shift);
    }
    return block;
  }
};

// Tries steps near the one that gives the element of the largest magnitude the code -32. Returns
// the step with the least squared error.
float Q6K::step_of(const float* from) {
  float furthest = 0;
  for (int i = 0; i < kGroup; ++i) {
    if (std::abs(from[i]) > std::abs(furthest)) furthest = from[i];
  }
  if (furthest == 0) return 0;
  float best = 0;
  double best_gain = -1;
  for (int attempt = -9; attempt <= 9; ++attempt) {
    const float inverse = -(kMiddle + 0.1F * static_cast<float>(attempt)) / furthest;
    double products = 0, squares = 0;
    for (int i = 0; i < kGroup; ++i) {
      const double code = std::clamp(nearest_integer(from[i] * inverse), -kMiddle, kMiddle - 1);
      products += code * from[i];
      squares += code * code;
    }
    // The best step for these codes reduces the squared error by products^2 / squares.
    if (squares > 0 && products * products > best_gain * squares) {
      best = static_cast<float>(products / squares);
      best_gain = products * products / squares;
    }
  }
  return best;
}

struct F32 {
  float value;
  static constexpr int kNumbers = 1;
  void read(float* to) const { *to = value; }
  static F32 of(const float* from) { return {*from}; }
};

struct F16 {
  uint16_t bits;
  static constexpr int kNumbers = 1;
  void read(float* to) const { *to = from_half(bits); }
  static F16 of(const float* from) { return {to_half(*from)}; }
};

struct Bf16 {
  uint16_t bits;
  static constexpr int kNumbers = 1;
  void read(float* to) const { *to = from_bfloat16(bits); }
  static Bf16 of(const float* from) { return {to_bfloat16(*from)}; }
};

static_assert(sizeof(Q8_0) == 34 && sizeof(Q4_0) == 18 && sizeof(Q4K) == 144 && sizeof(Q6K) == 210);
static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");

template <typename Block>
void read_each(std::span<const std::byte> blocks, std::span<float> numbers) {
  for (size_t i = 0; i * sizeof(Block) < blocks.size(); ++i) {
    Block block;
    std::memcpy(&block, blocks.data() + i * sizeof block, sizeof block);
    block.read(numbers.data() + i * Block::kNumbers);
  }
}

template <typename Block>
void write_each(std::span<const float> numbers, std::span<std::byte> blocks) {
  for (size_t i = 0; i * sizeof(Block) < blocks.size(); ++i) {
    const Block block = Block::of(numbers.data() + i * Block::kNumbers);
    std::memcpy(blocks.data() + i * sizeof block, &block, sizeof block);
  }
}

struct Format {
  GgufType type;
  const char* name;
  int64_t numbers, bytes;
  void (*read)(std::span<const std::byte>, std::span<float>);
  void (*write)(std::span<const float>, std::span<std::byte>);
};

template <typename Block>
constexpr Format format(GgufType type, const char* name) {
  return {type, name, Block::kNumbers, sizeof(Block), read_each<Block>, write_each<Block>};
}

constexpr std::array kFormats{
    format<F32>(GgufType::f32, "f32"),    format<F16>(GgufType::f16, "f16"),
    format<Bf16>(GgufType::bf16, "bf16"), format<Q8_0>(GgufType::q8_0, "q8_0"),
    format<Q4_0>(GgufType::q4_0, "q4_0"), format<Q4K>(GgufType::q4_k, "q4_k"),
    format<Q6K>(GgufType::q6_k, "q6_k")};

const Format& format_of(GgufType type) {
  const auto* found = std::ranges::find(kFormats, type, &Format::type);
  COLOSSAL_CHECK(found != kFormats.end(), "type {}", static_cast<uint32_t>(type));
  return *found;
}

void check_sizes(const Format& format, size_t bytes, size_t numbers) {
  COLOSSAL_CHECK(
      numbers % static_cast<size_t>(format.numbers) == 0 &&
          numbers / static_cast<size_t>(format.numbers) * static_cast<size_t>(format.bytes) ==
              bytes,
      "{} numbers of {} in {} bytes", numbers, format.name, bytes);
}

}  // namespace

std::optional<GgufType> find_gguf_type(uint32_t number) {
  for (const Format& format : kFormats) {
    if (static_cast<uint32_t>(format.type) == number) return format.type;
  }
  return std::nullopt;
}

std::optional<GgufType> find_gguf_type(std::string_view name) {
  for (const Format& format : kFormats) {
    if (format.name == name) return format.type;
  }
  return std::nullopt;
}

const char* gguf_type_name(GgufType type) {
  return format_of(type).name;
}

std::string gguf_type_names() {
  std::string names;
  for (const Format& format : kFormats)
    names += (names.empty() ? "" : ", ") + std::string(format.name);
  return names;
}

int64_t elements_per_block(GgufType type) {
  return format_of(type).numbers;
}

int64_t bytes_per_block(GgufType type) {
  return format_of(type).bytes;
}

void read_blocks(GgufType type, std::span<const std::byte> blocks, std::span<float> numbers) {
  const Format& format = format_of(type);
  check_sizes(format, blocks.size(), numbers.size());
  format.read(blocks, numbers);
}

void write_blocks(GgufType type, std::span<const float> numbers, std::span<std::byte> blocks) {
  const Format& format = format_of(type);
  check_sizes(format, blocks.size(), numbers.size());
  format.write(numbers, blocks);
}

}  // namespace colossal::io
