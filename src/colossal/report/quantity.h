// Numbers with units, as people read them: 1.21 GiB, 24.1k tokens/s, 41.3%, 6.00e-4. Unlike
// base/units.h it gives the parts of a number apart, since the ticks of an axis share their prefix.
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
  double one = 1;  // the value that is shown as 1: 0.01 where a fraction is shown in per cent
  bool symbol_on_ticks = true;  // false: too long to stand at each tick, so it goes with the title
};

inline constexpr Unit kNumber{};
inline constexpr Unit kCount{.prefixes = Unit::Prefixes::decimal};
inline constexpr Unit kBytes{.symbol = "B", .prefixes = Unit::Prefixes::binary};
inline constexpr Unit kSeconds{.symbol = "s", .prefixes = Unit::Prefixes::seconds};
inline constexpr Unit kPercent{.symbol = "%", .one = 0.01};
inline constexpr Unit kTokensPerSecond{
    .symbol = "tokens/s", .prefixes = Unit::Prefixes::decimal, .symbol_on_ticks = false};

// Value / divisor is the number to print before `prefix` and the unit's symbol.
struct Scaling {
  double divisor = 1;
  const char* prefix = "";
};

// Returns the scaling that fits numbers up to this magnitude.
Scaling scaling_of(double magnitude, const Unit& unit);

// Formats with three significant digits, or four if there is no unit. What is not finite is "–".
std::string format_quantity(double value, const Unit& unit);

// Prefix and symbol as they follow a number, with the space that belongs between them.
std::string unit_suffix(const Scaling& scaling, const Unit& unit, bool with_symbol);

// Formats in scientific notation without padding, with `digits` after the point: 6.00e-4.
std::string format_scientific(double value, int digits);

}  // namespace colossal::report
