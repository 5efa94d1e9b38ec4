#include "colossal/text/grammar/schema_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "colossal/text/grammar/byte_automaton.h"

namespace colossal::text::grammar {
namespace {

constexpr int64_t kMaxWholeDigits = 18, kMaxDigits = 15;
constexpr int64_t kMaxMultiple = 10'000;

// Compares magnitudes.
int compare_sizes(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  const int wholes = a.whole.compare(b.whole);
  return wholes != 0 ? wholes : a.fraction.compare(b.fraction);
}

bool is_zero(const Decimal& number) {
  return number.whole == "0" && number.fraction.empty();
}

// Follows the digits of a number, and compares them with those of a bound.
struct Place {
  int sign = 0;        // 0: before the number; 1 or -1
  int wholes = 0;      // digits before the point
  int fractions = -1;  // digits after the point; -1: before the point
  int order = 0;       // of the digits so far: -1 less than the bound's first digits, 0 equal, 1
  bool is_nonzero = false;

  int64_t packed() const {
    return ((((sign + 1) * 64 + wholes) * 64 + fractions + 1) * 4 + order + 1) * 2 + is_nonzero;
  }
  static Place of(int64_t packed) {
    Place place;
    place.is_nonzero = packed % 2 != 0;
    place.order = static_cast<int>(packed / 2 % 4) - 1;
    place.fractions = static_cast<int>(packed / 8 % 64) - 1;
    place.wholes = static_cast<int>(packed / 512 % 64);
    place.sign = static_cast<int>(packed / 32768) - 1;
    return place;
  }

  // Returns how the size of the number compares with that of the bound.
  int order_at_end(const Decimal& bound) const {
    const int of_wholes = order_of_wholes(bound);
    if (of_wholes != 0) return of_wholes;
    // The bound's digits that are left are not all zero.
    return std::max(fractions, 0) < std::ssize(bound.fraction) ? -1 : 0;
  }
  int order_of_wholes(const Decimal& bound) const {
    const auto digits = static_cast<int>(bound.whole.size());
    if (wholes != digits) return wholes < digits ? -1 : 1;
    return order;
  }
};

// The numbers on one side of a bound.
ByteAutomaton of_bound(const Bound& bound, bool is_minimum, bool whole) {
  const Decimal& value = bound.value;
  const int64_t most = whole ? kMaxWholeDigits : kMaxDigits;
  const auto step = [&, most](int64_t state, unsigned char byte) -> int64_t {
    Place place = Place::of(state);
    if (byte == '-') {
      if (place.sign != 0) return ByteAutomaton::kDead;
      place.sign = -1;
      return place.packed();
    }
    const bool has_leading_zero = place.wholes == 1 && !place.is_nonzero && place.fractions < 0;
    if (byte == '.') {
      if (whole || place.wholes == 0 || place.fractions >= 0) return ByteAutomaton::kDead;
      place.order = place.order_of_wholes(value);
      // From here on only the order of the wholes counts, and the digits after the point.
      place.fractions = 0;
      return place.packed();
    }
    const int64_t digits = place.wholes + std::max(place.fractions, 0);
    if (byte < '0' || byte > '9' || has_leading_zero || digits >= most) {
      return ByteAutomaton::kDead;
    }
    if (place.sign == 0) place.sign = 1;
    place.is_nonzero = place.is_nonzero || byte != '0';
    const std::string& others = place.fractions < 0 ? value.whole : value.fraction;
    int& count = place.fractions < 0 ? place.wholes : place.fractions;
    const char other = count < std::ssize(others) ? others[static_cast<size_t>(count)] : '0';
    ++count;
    if (place.order == 0 && static_cast<char>(byte) != other) {
      place.order = static_cast<char>(byte) < other ? -1 : 1;
    }
    return place.packed();
  };
  const auto may_end = [&](int64_t state) {
    const Place place = Place::of(state);
    if (place.wholes == 0 || place.fractions == 0) return false;
    if (place.sign < 0 && !place.is_nonzero) return false;  // -0
    const bool is_negative = place.sign < 0;
    int order = 0;  // of the number and the bound
    if (is_negative != value.is_negative) {
      order = is_negative ? -1 : 1;
    } else {
      const int sizes = place.fractions < 0 ? place.order_at_end(value)
                                            : (place.order != 0 ? place.order
                                               : place.fractions < std::ssize(value.fraction) ? -1
                                                                                              : 0);
      order = is_negative ? -sizes : sizes;
    }
    if (order == 0) return !bound.is_exclusive;
    return is_minimum ? order > 0 : order < 0;
  };
  return ByteAutomaton::of_steps(Place().packed(), step, may_end);
}

// The integers that are multiples of a number. A state is the remainder of the digits so far, with
// what may follow.
ByteAutomaton of_multiples(int64_t of) {
  enum : int64_t { kBegin = 0, kAfterSign = 1, kZero = 2, kDigits = 3 };
  return ByteAutomaton::of_steps(
      kBegin,
      [=](int64_t state, unsigned char byte) -> int64_t {
        if (byte == '-') return state == kBegin ? int64_t{kAfterSign} : ByteAutomaton::kDead;
        if (byte < '0' || byte > '9' || state == kZero) return ByteAutomaton::kDead;
        const int64_t digit = byte - '0';
        if (state < kZero) {
          if (digit == 0) return state == kBegin ? int64_t{kZero} : ByteAutomaton::kDead;
          return kDigits + digit % of;
        }
        return kDigits + ((state - kDigits) * 10 + digit) % of;
      },
      [=](int64_t state) { return state == kZero || state == kDigits; });
}

}  // namespace

Decimal Decimal::of(const nlohmann::ordered_json& number) {
  std::string text =
      number.is_number_float() ? fmt::format("{}", number.get<double>()) : number.dump();
  Decimal made;
  made.is_negative = text.starts_with('-');
  if (made.is_negative) text.erase(0, 1);
  int64_t exponent = 0;
  if (const size_t e = text.find('e'); e != text.npos) {
    exponent = std::stoll(text.substr(e + 1));
    text.resize(e);
  }
  const size_t point = std::min(text.find('.'), text.size());
  std::string digits = text.substr(0, point);
  int64_t wholes = static_cast<int64_t>(digits.size()) + exponent;
  if (point < text.size()) digits += text.substr(point + 1);
  if (wholes < 0) digits.insert(0, static_cast<size_t>(-wholes), '0');
  wholes = std::max<int64_t>(wholes, 0);
  if (wholes > std::ssize(digits)) digits.append(static_cast<size_t>(wholes) - digits.size(), '0');
  made.whole = digits.substr(0, static_cast<size_t>(wholes));
  made.fraction = digits.substr(static_cast<size_t>(wholes));
  made.whole.erase(0, std::min(made.whole.find_first_not_of('0'), made.whole.size()));
  if (made.whole.empty()) made.whole = "0";
  made.fraction.resize(made.fraction.find_last_not_of('0') + 1);
  if (is_zero(made)) made.is_negative = false;
  return made;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.is_negative != b.is_negative) return a.is_negative ? -1 : 1;
  return a.is_negative ? -compare_sizes(a, b) : compare_sizes(a, b);
}

void NumberConditions::require_minimum(const Bound& bound) {
  const int order = minimum ? compare(bound.value, minimum->value) : 1;
  if (order > 0 || (order == 0 && bound.is_exclusive)) minimum = bound;
}

void NumberConditions::require_maximum(const Bound& bound) {
  const int order = maximum ? compare(bound.value, maximum->value) : -1;
  if (order < 0 || (order == 0 && bound.is_exclusive)) maximum = bound;
}

void NumberConditions::require_multiple(int64_t of) {
  multiple = std::lcm(std::max<int64_t>(multiple, 1), std::min(of, kMaxMultiple + 1));
  if (multiple > kMaxMultiple) {
    throw GrammarError(fmt::format(
        "the schema has a \"multipleOf\" above {}, which is not supported", kMaxMultiple));
  }
}

bool NumberConditions::admit(const nlohmann::ordered_json& number) const {
  const Decimal value = Decimal::of(number);
  if (minimum) {
    const int order = compare(value, minimum->value);
    if (order < 0 || (order == 0 && minimum->is_exclusive)) return false;
  }
  if (maximum) {
    const int order = compare(value, maximum->value);
    if (order > 0 || (order == 0 && maximum->is_exclusive)) return false;
  }
  if (multiple == 0) return true;
  int64_t remainder = 0;
  for (const char digit : value.whole) remainder = (remainder * 10 + (digit - '0')) % multiple;
  return value.is_whole() && remainder == 0;
}

bool NumberConditions::exclude(const NumberConditions& other) const {
  const auto is_above = [](const std::optional<Bound>& low, const std::optional<Bound>& high) {
    if (!low || !high) return false;
    const int order = compare(low->value, high->value);
    return order > 0 || (order == 0 && (low->is_exclusive || high->is_exclusive));
  };
  return is_above(minimum, other.maximum) || is_above(other.minimum, maximum);
}

Symbol add_numbers(Grammar& grammar, const NumberConditions& conditions, bool whole) {
  const bool is_whole = whole || conditions.multiple != 0;
  const int64_t most = is_whole ? kMaxWholeDigits : kMaxDigits;
  // Bounds that no number of so many digits reaches exclude all numbers or none.
  std::optional<Bound> minimum = conditions.minimum, maximum = conditions.maximum;
  for (std::optional<Bound>* bound : {&minimum, &maximum}) {
    if (!*bound) continue;
    const Decimal& value = (*bound)->value;
    if (std::ssize(value.whole) > most) {
      if (value.is_negative != (bound == &minimum)) return grammar.add_anonymous_rule({});
      bound->reset();
    } else if (!is_whole && std::ssize(value.whole) + std::ssize(value.fraction) > most) {
      throw GrammarError(fmt::format(
          "the schema has a \"minimum\" or \"maximum\" of more than {} digits, which is "
          "not supported",
          most));
    }
  }
  // Without a bound: no number is below this one.
  const Bound least{{.is_negative = true, .whole = std::string(static_cast<size_t>(most), '9')}};
  ByteAutomaton numbers = of_bound(minimum.value_or(least), true, is_whole);
  if (maximum) numbers = numbers.intersected(of_bound(*maximum, false, is_whole));
  if (conditions.multiple > 1) numbers = numbers.intersected(of_multiples(conditions.multiple));
  return numbers.add_to(grammar);
}

}  // namespace colossal::text::grammar
