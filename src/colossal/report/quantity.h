// Formats numbers with units: 1.21 GiB, 24.1k tokens/s, 41.3%, 6.00e-4. Unlike base/units.h,
// returns a prefix also apart from its number, since all ticks of an axis share one prefix.
#pragma once

#include <string>

namespace colossal::report {

struct Unit {
  enum class Prefixes {
    none,
    decimal,  // k, M, G, T, from 10,000 on
    binary,   // Ki, Mi, Gi, Ti
    seconds,  // µs, ms, s
  };

  const char* symbol = "";
  Prefixes prefixes = Prefixes::none;
  double one = 1;  // the value that is printed as 1: 0.01 if fractions become percentages
  // False: the symbol is too long for ticks and is shown beside the title.
  bool symbol_on_ticks = true;
};

inline constexpr Unit kNumber{};
inline constexpr Unit kCount{.prefixes = Unit::Prefixes::decimal};
inline constexpr Unit kBytes{.symbol = "B", .prefixes = Unit::Prefixes::binary};
inline constexpr Unit kSeconds{.symbol = "s", .prefixes = Unit::Prefixes::seconds};
inline constexpr Unit kPercent{.symbol = "%", .one = 0.01};
inline constexpr Unit kTokensPerSecond{
    .symbol = "tokens/s", .prefixes = Unit::Prefixes::decimal, .symbol_on_ticks = false};

// The number to print is value / divisor. `prefix` and the unit's symbol follow it.
struct Scaling {
  double divisor = 1;
  const char* prefix = "";
};

// Returns the scaling that suits numbers up to `magnitude`.
Scaling scaling_of(double magnitude, const Unit& unit);

// Formats with three significant digits, or with four if the unit has neither symbol nor prefixes;
// in scientific notation if the scaled number is below 0.001 or from 10 million on. Bytes without a
// prefix are printed as whole numbers. Non-finite values become "–".
std::string format_quantity(double value, const Unit& unit);

// Returns prefix and symbol for appending to a number, with a leading space if the unit needs one.
std::string unit_suffix(const Scaling& scaling, const Unit& unit, bool with_symbol);

// Formats in scientific notation with `digits` digits after the point and an exponent without
// leading zeros: 6.00e-4.
std::string format_scientific(double value, int digits);

}  // namespace colossal::report
