// Formats numbers with units for charts and headlines: 1.21 GiB, 24.1k tokens/s, 41.3%, 6.00e-4.
// Unlike base/units.h, this file can also return the prefix (Gi, k) apart from the number, because
// all ticks of an axis have the same prefix.
#pragma once

#include <string>

namespace colossal::report {

struct Unit {
  // Which prefixes are used for large or small numbers.
  enum class Prefixes {
    none,
    decimal,  // k, M, G, T (powers of 1000), for numbers from 10,000 on
    binary,   // Ki, Mi, Gi, Ti (powers of 1024)
    seconds,  // µ, m, for numbers below 1 other than 0
  };

  const char* symbol = "";  // "B", "%"
  Prefixes prefixes = Prefixes::none;
  // The value that is printed as 1. For example, 0.01 prints fractions as percentages. Must be 1
  // unless `prefixes` is none.
  double one = 1;
  // Whether labels of ticks show the symbol; false for a long symbol, which is shown beside the
  // title of the chart instead.
  bool symbol_on_ticks = true;
};

inline constexpr Unit kNumber{};
inline constexpr Unit kCount{.prefixes = Unit::Prefixes::decimal};
inline constexpr Unit kBytes{.symbol = "B", .prefixes = Unit::Prefixes::binary};
inline constexpr Unit kSeconds{.symbol = "s", .prefixes = Unit::Prefixes::seconds};
inline constexpr Unit kPercent{.symbol = "%", .one = 0.01};
inline constexpr Unit kTokensPerSecond{
    .symbol = "tokens/s", .prefixes = Unit::Prefixes::decimal, .symbol_on_ticks = false};

inline constexpr Unit kImagesPerSecond{
    .symbol = "images/s", .prefixes = Unit::Prefixes::decimal, .symbol_on_ticks = false};

// How to print a value: as value / divisor, followed by `prefix` and the unit's symbol.
struct Scaling {
  double divisor = 1;
  const char* prefix = "";
};

// Returns the scaling for values with magnitudes up to `magnitude`, which must not be negative.
Scaling scaling_of(double magnitude, const Unit& unit);

// Returns a value as text with prefix and symbol. 0 becomes "0" with the symbol. Any other number
// has three significant digits, or four if the unit has neither symbol nor prefixes; all digits
// before the point are printed, even if they are more. After scaling, a magnitude below 0.001, or
// of 10 million or more, is printed in scientific notation. Bytes without a prefix are printed as
// whole numbers. A value that is not finite becomes "–".
std::string format_quantity(double value, const Unit& unit);

// Returns what to append to a number: the prefix and, if with_symbol, the symbol. It begins with a
// space if one is usual: " GiB", " tokens/s", but "k", "%".
std::string unit_suffix(const Scaling& scaling, const Unit& unit, bool with_symbol);

// Returns a value in scientific notation, with `digits` digits after the point and an exponent
// without leading zeros: 6.00e-4.
std::string format_scientific(double value, int digits);

}  // namespace colossal::report
