// Formats numbers with units: 1.21 GiB, 24.1k tokens/s, 41.3%, 6.00e-4. Unlike base/units.h, number
// and prefix are available separately, since all ticks of an axis share one prefix.
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
  double one = 1;  // the value that is printed as 1, e.g. 0.01 to print fractions as percentages
  // false: the symbol is too long for ticks and is shown with the title
  bool symbol_on_ticks = true;
};

inline constexpr Unit kNumber{};
inline constexpr Unit kCount{.prefixes = Unit::Prefixes::decimal};
inline constexpr Unit kBytes{.symbol = "B", .prefixes = Unit::Prefixes::binary};
inline constexpr Unit kSeconds{.symbol = "s", .prefixes = Unit::Prefixes::seconds};
inline constexpr Unit kPercent{.symbol = "%", .one = 0.01};
inline constexpr Unit kTokensPerSecond{
    .symbol = "tokens/s", .prefixes = Unit::Prefixes::decimal, .symbol_on_ticks = false};

// The number to print is value / divisor, followed by `prefix` and the unit's symbol.
struct Scaling {
  double divisor = 1;
  const char* prefix = "";
};

// Returns the scaling for numbers up to this magnitude.
Scaling scaling_of(double magnitude, const Unit& unit);

// Formats with three significant digits, or four if there is no unit. Non-finite values become "–".
std::string format_quantity(double value, const Unit& unit);

// Returns prefix and symbol to append to a number, with a leading space if needed.
std::string unit_suffix(const Scaling& scaling, const Unit& unit, bool with_symbol);

// Formats in scientific notation without padding, with `digits` digits after the point: 6.00e-4.
std::string format_scientific(double value, int digits);

}  // namespace colossal::report
