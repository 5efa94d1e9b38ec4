#include "colossal/report/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace colossal::report {
namespace {

constexpr double kSmallestFixed = 1e-3;   // smaller numbers are written with an exponent
constexpr double kLargestUnscaled = 1e4;  // larger numbers get a prefix, if the unit has prefixes
constexpr double kLargestFixed = 1e7;     // larger numbers without a prefix are written with an
                                          // exponent

Scaling step_prefixes(double magnitude, double base, std::array<const char*, 5> prefixes) {
  Scaling scaling{1, prefixes[0]};
  for (size_t i = 1; i < prefixes.size() && magnitude >= scaling.divisor * base; ++i) {
    scaling = {scaling.divisor * base, prefixes[i]};
  }
  return scaling;
}

// Formats plain numbers with four digits, because small differences of a loss matter, and numbers
// with a unit with three.
std::string format_number(double value, const Unit& unit, const Scaling& scaling) {
  const double magnitude = std::abs(value);
  if (magnitude == 0) return "0";
  const bool is_bytes = unit.prefixes == Unit::Prefixes::binary && *scaling.prefix == '\0';
  if (is_bytes) return fmt::format("{:.0f}", value);
  if (magnitude < kSmallestFixed || magnitude >= kLargestFixed) return format_scientific(value, 2);
  const int exponent = static_cast<int>(std::floor(std::log10(magnitude)));
  const bool is_plain = *unit.symbol == '\0' && unit.prefixes == Unit::Prefixes::none;
  const int digits = is_plain ? 4 : 3;
  return fmt::format("{:.{}f}", value, std::clamp(digits - 1 - exponent, 0, 6));
}

}  // namespace

Scaling scaling_of(double magnitude, const Unit& unit) {
  magnitude /= unit.one;
  switch (unit.prefixes) {
    case Unit::Prefixes::none:
      return {unit.one, ""};
    case Unit::Prefixes::decimal:
      if (magnitude < kLargestUnscaled) return {unit.one, ""};
      return step_prefixes(magnitude, 1000, {"", "k", "M", "G", "T"});
    case Unit::Prefixes::binary:
      return step_prefixes(magnitude, 1024, {"", "Ki", "Mi", "Gi", "Ti"});
    case Unit::Prefixes::seconds:
      if (magnitude == 0 || magnitude >= 1) return {1, ""};
      return magnitude >= 1e-3 ? Scaling{1e-3, "m"} : Scaling{1e-6, "µ"};
  }
  return {};
}

std::string unit_suffix(const Scaling& scaling, const Unit& unit, bool with_symbol) {
  const std::string_view symbol = with_symbol ? unit.symbol : "";
  // A prefix without a symbol follows its number directly (24k), and so does %. Otherwise a space
  // comes before the symbol (24k tokens/s), or before a binary or other prefix with its symbol (24
  // MiB).
  if (unit.prefixes == Unit::Prefixes::decimal || unit.prefixes == Unit::Prefixes::none) {
    const bool close = symbol.empty() || symbol == "%";
    return fmt::format("{}{}{}", scaling.prefix, close ? "" : " ", symbol);
  }
  return fmt::format(" {}{}", scaling.prefix, symbol);
}

std::string format_quantity(double value, const Unit& unit) {
  if (!std::isfinite(value)) return "–";
  const Scaling scaling = scaling_of(std::abs(value), unit);
  return format_number(value / scaling.divisor, unit, scaling) + unit_suffix(scaling, unit, true);
}

std::string format_scientific(double value, int digits) {
  const std::string padded = fmt::format("{:.{}e}", value, digits);  // 6.00e-04
  const size_t exponent = padded.find('e') + 1;
  return fmt::format("{}{}", padded.substr(0, exponent), std::stoi(padded.substr(exponent)));
}

}  // namespace colossal::report
