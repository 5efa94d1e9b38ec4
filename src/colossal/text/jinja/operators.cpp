#include "colossal/text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "colossal/text/jinja/methods.h"
#include "colossal/text/jinja/python_text.h"

namespace colossal::text::jinja {
namespace {

[[noreturn]] void refuse_operands(std::string_view symbol, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined()) {
      throw TemplateError(fmt::format("'{}' is undefined", value->undefined_name()));
    }
  }
  throw TemplateError(
      fmt::format("{} {} {}: there is no such operation", a.type_name(), symbol, b.type_name()));
}

std::string_view symbol_of(Operator kind) {
  constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSymbols[static_cast<int>(kind)];
}

[[noreturn]] void refuse_overflow() {
  throw TemplateError("an integer does not fit 64 bits");
}

void require_divisor(bool is_zero) {
  if (is_zero) throw TemplateError("division by zero");
}

// Returns the quotient rounded down, as in Python.
int64_t floor_quotient(int64_t a, int64_t b) {
  require_divisor(b == 0);
  if (a == INT64_MIN && b == -1) refuse_overflow();
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) refuse_overflow();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) refuse_overflow();
  }
  return result;
}

Value calculate_integers(Operator kind, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (kind) {
    case Operator::add:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Operator::subtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Operator::multiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Operator::divide:
      require_divisor(b == 0);
      return static_cast<double>(a) / static_cast<double>(b);
    case Operator::floor_divide:
      return floor_quotient(a, b);
    case Operator::modulo:
      return b == -1 ? int64_t{0} : a - floor_quotient(a, b) * b;
    case Operator::power:
      if (b < 0) return std::pow(static_cast<double>(a), static_cast<double>(b));
      return integer_power(a, b);
  }
  if (overflow) refuse_overflow();
  return result;
}

Value calculate_floats(Operator kind, double a, double b) {
  switch (kind) {
    case Operator::add:
      return a + b;
    case Operator::subtract:
      return a - b;
    case Operator::multiply:
      return a * b;
    case Operator::divide:
      require_divisor(b == 0);
      return a / b;
    case Operator::floor_divide:
      require_divisor(b == 0);
      return std::floor(a / b);
    case Operator::modulo:
      require_divisor(b == 0);
      return a - std::floor(a / b) * b;
    case Operator::power:
      return std::pow(a, b);
  }
  return {};
}

Value repeated(Interpreter& interpreter, const Value& sequence, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const int64_t size = extent_of(sequence).size * times;
  if (times > 0 && size / times != extent_of(sequence).size) refuse_overflow();
  interpreter.charge(static_cast<size_t>(size));
  if (sequence.list()) interpreter.charge_elements(size);
  std::string text;
  std::vector<Value> items;
  for (int64_t i = 0; i < times; ++i) {
    if (sequence.is_string()) {
      text += sequence.string();
    } else {
      items.insert(items.end(), sequence.list()->items.begin(), sequence.list()->items.end());
    }
  }
  if (sequence.is_string()) return text;
  return make_list(std::move(items), sequence.list()->kind);
}

std::optional<Value> calculate_sequences(Interpreter& interpreter, Operator kind, const Value& a,
                                         const Value& b) {
  const auto is_list = [](const Value& value) {
    return value.list() && value.list()->kind != List::Kind::generator;
  };
  if (kind == Operator::modulo && a.is_string()) return percent_format(interpreter, a, b);
  if (kind == Operator::add && a.is_string() && b.is_string()) {
    interpreter.charge(a.string().size() + b.string().size());
    return a.string() + b.string();
  }
  if (kind == Operator::add && is_list(a) && is_list(b) && a.list()->kind == b.list()->kind) {
    std::vector<Value> items = a.list()->items;
    items.insert(items.end(), b.list()->items.begin(), b.list()->items.end());
    interpreter.charge(items.size() * sizeof(Value));
    return make_list(std::move(items), a.list()->kind);
  }
  if (kind != Operator::multiply) return {};
  if ((a.is_string() || is_list(a)) && b.is_integer()) return repeated(interpreter, a, b.integer());
  if ((b.is_string() || is_list(b)) && a.is_integer()) return repeated(interpreter, b, a.integer());
  return {};
}

// Returns the element; null if there is none. Negative indices count from the end.
const Value* element(const List& list, int64_t index) {
  const auto size = static_cast<int64_t>(list.items.size());
  if (index < 0) index += size;
  return index >= 0 && index < size && list.kind != List::Kind::generator ? &list.items[index]
                                                                          : nullptr;
}

// Returns the byte offset of a character; the text's size for the index after the last character.
size_t byte_offset(std::string_view text, int64_t character) {
  size_t offset = 0;
  while (character > 0) {
    while (++offset < text.size() && (text[offset] & 0xC0) == 0x80) {
    }
    --character;
  }
  return offset;
}

Value character_at(const std::string& text, int64_t index) {
  const int64_t size = length_of(text);
  if (index < 0) index += size;
  if (index < 0 || index >= size) return Value::undefined("str object has no such element");
  const size_t begin = byte_offset(text, index);
  return text.substr(begin, byte_offset(std::string_view(text).substr(begin), 1));
}

struct SliceBounds {
  int64_t begin, end, step;
};

// Same as Python's slice.indices().
SliceBounds resolve_slice(int64_t size, std::optional<int64_t> begin, std::optional<int64_t> end,
                          int64_t step) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto place = [&](std::optional<int64_t> bound, int64_t otherwise) {
    if (!bound) return otherwise;
    return std::clamp(*bound < 0 ? *bound + size : *bound, low, high);
  };
  return {place(begin, step > 0 ? low : high), place(end, step > 0 ? high : low), step};
}

Value substring(const std::string& text, std::optional<int64_t> begin, std::optional<int64_t> end) {
  const SliceBounds bounds = resolve_slice(length_of(text), begin, end, 1);
  const size_t first = byte_offset(text, bounds.begin);
  const std::string_view rest = std::string_view(text).substr(first);
  return rest.substr(0, byte_offset(rest, std::max<int64_t>(bounds.end - bounds.begin, 0)));
}

std::string describe_missing(const Value& object, const std::string& name) {
  return fmt::format("{} object has no attribute '{}'", object.type_name(), name);
}

Value get_entry(const Value& object, const std::string& name) {
  const Value* entry = object.dict() ? object.dict()->find(Value(name)) : nullptr;
  return entry ? *entry : Value::undefined(describe_missing(object, name));
}

void require_defined(const Value& value) {
  if (value.is_undefined()) {
    throw TemplateError(value.undefined_name().find(' ') == std::string::npos
                            ? fmt::format("'{}' is undefined", value.undefined_name())
                            : value.undefined_name());
  }
}

}  // namespace

Value calculate(Interpreter& interpreter, Operator kind, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    return a.is_float() || b.is_float() ? calculate_floats(kind, a.number(), b.number())
                                        : calculate_integers(kind, a.integer(), b.integer());
  }
  if (auto result = calculate_sequences(interpreter, kind, a, b)) return *std::move(result);
  refuse_operands(symbol_of(kind), a, b);
}

bool contains(const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) refuse_operands("in", item, container);
    return find_text(container.string(), item.string()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) return dict->find(item) != nullptr;
  const auto items = iterate(container);
  return std::ranges::any_of(items->items, [&](const Value& value) { return equal(value, item); });
}

bool holds(Relation relation, const Value& a, const Value& b) {
  switch (relation) {
    case Relation::equal:
      return equal(a, b);
    case Relation::not_equal:
      return !equal(a, b);
    case Relation::less:
      return compare(a, b) < 0;
    case Relation::less_or_equal:
      return compare(a, b) <= 0;
    case Relation::greater:
      return compare(a, b) > 0;
    case Relation::greater_or_equal:
      return compare(a, b) >= 0;
    case Relation::in:
      return contains(b, a);
    case Relation::not_in:
      return !contains(b, a);
  }
  return false;
}

Value get_attribute(const Value& object, const std::string& name) {
  require_defined(object);
  if (const Namespace* space = object.space()) {
    const Value* value = space->find(name);
    return value ? *value : Value::undefined(describe_missing(object, name));
  }
  if (auto attribute = find_attribute(object, name)) return *std::move(attribute);
  return get_entry(object, name);
}

Value get_item(const Value& object, const Value& index) {
  require_defined(object);
  if (const Dict* dict = object.dict()) {
    if (const Value* value = dict->find(index)) return *value;
  }
  if (index.is_integer() || index.is_boolean()) {
    if (object.is_string()) return character_at(object.string(), index.integer());
    const Value* value = object.list() ? element(*object.list(), index.integer()) : nullptr;
    return value ? *value
                 : Value::undefined(fmt::format("{} object has no element {}", object.type_name(),
                                                index.integer()));
  }
  return index.is_string() ? get_attribute(object, index.string())
                           : Value::undefined(describe_missing(object, index.str()));
}

Value get_slice(const Value& object, std::optional<int64_t> begin, std::optional<int64_t> end,
                std::optional<int64_t> step) {
  require_defined(object);
  if (!object.is_string() && !object.list()) {
    throw TemplateError(fmt::format("a value of type {} has no slices", object.type_name()));
  }
  if (step == 0) throw TemplateError("the step of a slice is 0");
  if (object.is_string() && step.value_or(1) == 1) return substring(object.string(), begin, end);
  const std::shared_ptr<const List> items = iterate(object);
  const SliceBounds bounds =
      resolve_slice(static_cast<int64_t>(items->items.size()), begin, end, step.value_or(1));
  std::vector<Value> kept;
  std::string text;
  for (int64_t i = bounds.begin; bounds.step > 0 ? i < bounds.end : i > bounds.end;) {
    object.is_string() ? void(text += items->items[i].string()) : kept.push_back(items->items[i]);
    if (__builtin_add_overflow(i, bounds.step, &i)) break;
  }
  if (object.is_string()) return text;
  return make_list(std::move(kept), object.list()->kind);
}

Value call_function(Interpreter& interpreter, const Value& callee, const Arguments& arguments) {
  require_defined(callee);
  if (const Function* function = callee.function()) return function->call(interpreter, arguments);
  throw TemplateError(fmt::format("a value of type {} cannot be called", callee.type_name()));
}

}  // namespace colossal::text::jinja
