#include "colossal/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace colossal {
namespace {

using std::chrono::milliseconds;

struct Unit {
  std::string_view name;
  double scale;
};

// From largest to smallest: formatting uses the first unit that fits.
constexpr std::array<Unit, 5> kBinaryUnits{
    {{"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}, {"B", 1}}};
constexpr std::array<Unit, 4> kDecimalUnits{{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}}};
constexpr std::array<Unit, 5> kTimeUnits{
    {{"d", 86'400e3}, {"h", 3'600e3}, {"m", 60e3}, {"s", 1e3}, {"ms", 1}}};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

template <std::size_t N>
std::optional<double> scale_of(std::string_view name, const std::array<Unit, N>& units) {
  for (const Unit& unit : units) {
    if (equal_ignoring_case(unit.name, name)) return unit.scale;
  }
  return std::nullopt;
}

// Removes an unsigned decimal number from the beginning of `text` and returns it.
std::optional<double> take_number(std::string_view& text) {
  if (text.empty() || !(std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.')) {
    return std::nullopt;
  }
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::string_view take_letters(std::string_view& text) {
  const auto end =
      std::find_if_not(text.begin(), text.end(), [](unsigned char c) { return std::isalpha(c); });
  const std::string_view letters = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(letters.size());
  return letters;
}

void skip_spaces(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
}

// Formats a value with three digits: 1.50, 15.0, 150.
std::string three_digits(double value) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}", value, decimals);
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  const double magnitude = std::abs(static_cast<double>(bytes));
  for (const Unit& unit : kBinaryUnits) {
    // 1023.7 KiB would be rounded to "1024 KiB"; it is shown as 1.00 MiB.
    if (unit.scale > 1 && magnitude >= unit.scale * (1 - 0.5 / 1024)) {
      const char* sign = bytes < 0 ? "-" : "";
      return fmt::format("{}{} {}", sign, three_digits(magnitude / unit.scale), unit.name);
    }
  }
  return fmt::format("{} B", bytes);
}

std::string format_count(int64_t count) {
  std::string digits = fmt::format("{}", count);
  const std::size_t first = count < 0 ? 1 : 0;
  for (std::size_t end = digits.size(); end > first + 3;) {
    end -= 3;
    digits.insert(end, 1, ',');
  }
  return digits;
}

std::string format_duration(std::chrono::duration<double> length) {
  const double seconds = length.count();
  if (seconds < 0) return "-" + format_duration(-length);
  if (!(seconds < 1e12)) return "ever";
  if (seconds < 0.9995) return fmt::format("{:.0f}ms", seconds * 1e3);
  if (seconds < 9.95) return fmt::format("{:.1f}s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3'600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  const int64_t minutes = whole / 60;
  if (minutes < 24 * 60) return fmt::format("{}h{:02}m", minutes / 60, minutes % 60);
  return fmt::format("{}d{:02}h", minutes / (24 * 60), minutes / 60 % 24);
}

std::string format_rate(double per_second, std::string_view unit) {
  const bool whole = std::abs(per_second) >= 99.95 && std::abs(per_second) < 9e18;
  return fmt::format(
      "{} {}/s", whole ? format_count(std::llround(per_second)) : three_digits(per_second), unit);
}

std::string exact_duration(milliseconds length) {
  const bool whole_seconds = length.count() % 1'000 == 0;
  return whole_seconds ? fmt::format("{}s", length.count() / 1'000)
                       : fmt::format("{}ms", length.count());
}

std::string exact_bytes(ByteSize size) {
  for (const Unit& unit : kBinaryUnits) {
    const auto scale = static_cast<int64_t>(unit.scale);
    if (size.bytes != 0 && size.bytes % scale == 0) {
      return fmt::format("{}{}", size.bytes / scale, unit.name);
    }
  }
  return "0B";
}

std::optional<milliseconds> parse_duration(std::string_view text) {
  constexpr double kLimit = 3.2e14;  // milliseconds: 10,000 years
  double total = 0;
  bool first = true;
  do {
    const std::optional<double> number = take_number(text);
    if (!number) return std::nullopt;
    const std::string_view unit = take_letters(text);
    const bool bare_seconds = unit.empty() && first && text.empty();
    const std::optional<double> scale = bare_seconds ? 1e3 : scale_of(unit, kTimeUnits);
    if (!scale) return std::nullopt;
    total += *number * *scale;
    first = false;
  } while (!text.empty());
  if (!(total <= kLimit)) return std::nullopt;
  return milliseconds(std::llround(total));
}

std::optional<ByteSize> parse_bytes(std::string_view text) {
  const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
  const std::optional<double> number = take_number(text);
  if (!number) return std::nullopt;
  const bool whole = digits.data() + digits.size() == text.data();
  skip_spaces(text);
  const std::string_view unit = take_letters(text);
  std::optional<double> scale = unit.empty() ? 1 : scale_of(unit, kBinaryUnits);
  if (!scale) scale = scale_of(unit, kDecimalUnits);
  if (!scale || !text.empty() || (!whole && *number * *scale >= 0x1p63)) {
    return std::nullopt;
  }
  if (!whole) return ByteSize{std::llround(*number * *scale)};
  // Whole sizes are parsed as integers, because a double is exact up to 53 bits only.
  int64_t bytes = 0;
  const bool fits = std::from_chars(digits.begin(), digits.end(), bytes).ec == std::errc() &&
                    !__builtin_mul_overflow(bytes, static_cast<int64_t>(*scale), &bytes);
  return fits ? std::optional(ByteSize{bytes}) : std::nullopt;
}

}  // namespace colossal
