#include "colossal/text/jinja/methods.h"

#include <algorithm>
#include <map>

#include "colossal/text/jinja/arguments.h"
#include "colossal/text/jinja/filters.h"
#include "colossal/text/jinja/python_text.h"

namespace colossal::text::jinja {
namespace {

using Method = Value (*)(Interpreter&, const Value& self, const Arguments&);
using Methods = std::map<std::string_view, Method>;

Value list_of(const std::vector<std::string>& texts) {
  return make_list(std::vector<Value>(texts.begin(), texts.end()));
}

Value split(Interpreter& interpreter, const Value& self, const Arguments& arguments,
            bool from_right) {
  const ArgumentReader read("split", arguments, {"sep", "maxsplit"});
  const auto separator = read.optional_string(0);
  if (separator && separator->empty()) throw TemplateError("split(): the separator is empty");
  const auto parts = split_text(self.string(), separator, read.integer(1, -1), from_right);
  interpreter.charge_elements(std::ssize(parts));
  return list_of(parts);
}

using Strip = std::string_view (*)(std::string_view, std::optional<std::string_view>);
template <Strip strip>
Value stripped(Interpreter&, const Value& self, const Arguments& arguments) {
  return strip(self.string(), ArgumentReader("strip", arguments, {"chars"}).optional_string(0));
}

// Returns whether matches() is true for the first argument or, if it is a tuple, for one of its
// strings.
template <class Function>
Value any_affix(const Value& self, const Arguments& arguments, Function matches) {
  const ArgumentReader read("startswith or endswith", arguments, {"affix"}, 1);
  if (!read[0].list()) return matches(self.string(), read.string(0));
  return std::ranges::any_of(read[0].list()->items, [&](const Value& affix) {
    return affix.is_string() && matches(self.string(), affix.string());
  });
}

Value position_of(const Value& self, const Arguments& arguments, bool last, bool must_be) {
  const ArgumentReader read("find", arguments, {"sub"}, 1);
  const std::string& text = self.string();
  const size_t found = last ? find_last(text, read.string(0)) : find_text(text, read.string(0));
  if (found == std::string::npos && must_be) throw TemplateError("index(): no such text is there");
  if (found == std::string::npos) return int64_t{-1};
  return length_of(std::string_view(text).substr(0, found));
}

Value count_text(Interpreter&, const Value& self, const Arguments& arguments) {
  const std::string_view wanted = ArgumentReader("count", arguments, {"sub"}, 1).string(0);
  if (wanted.empty()) return length_of(self.string()) + 1;
  int64_t count = 0;
  for (size_t at = find_text(self.string(), wanted); at != std::string::npos;
       at = find_text(self.string(), wanted, at + wanted.size())) {
    ++count;
  }
  return count;
}

Value replaced(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const ArgumentReader read("replace", arguments, {"old", "new", "count"}, 2);
  std::string text = replace_text(self.string(), read.string(0), read.string(1),
                                  read.integer(2, -1), interpreter.max_bytes());
  interpreter.charge(text.size());
  return text;
}

Value join_texts(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  std::string text;
  bool first = true;
  for (const auto all = interpreter.iterate(ArgumentReader("join", arguments, {"iterable"}, 1)[0]);
       const Value& item : all->items) {
    if (!item.is_string()) throw TemplateError("join(): takes strings, not " + item.type_name());
    if (!first) interpreter.append(text, self.string());
    interpreter.append(text, item.string());
    first = false;
  }
  return text;
}

template <std::string (*change)(std::string_view)>
Value changed_text(Interpreter& interpreter, const Value& self, const Arguments&) {
  // To decode and map characters takes several times as long as to copy their bytes.
  for (int copies = 0; copies < 4; ++copies) interpreter.charge(self.string().size());
  std::string text = change(self.string());
  return text;
}
template <CharacterClass wanted>
Value is_all(Interpreter&, const Value& self, const Arguments&) {
  return all_are(self.string(), wanted);
}

Value remove_affix(const Value& self, const Arguments& arguments, bool prefix) {
  const std::string_view affix =
      ArgumentReader("removeprefix or removesuffix", arguments, {"affix"}, 1).string(0);
  std::string_view text = self.string();
  if (prefix && text.starts_with(affix)) text.remove_prefix(affix.size());
  if (!prefix && text.ends_with(affix)) text.remove_suffix(affix.size());
  return text;
}

Value padded(const Value& self, const Arguments& arguments, bool before) {
  const ArgumentReader read("ljust or rjust", arguments, {"width", "fillchar"}, 1);
  const int64_t missing = std::min<int64_t>(read.integer(0, 0), 1 << 20) - length_of(self.string());
  const std::string_view fill = read.string(1, " ");
  if (length_of(fill) != 1) throw TemplateError("ljust() and rjust() fill with one character");
  std::string pad;
  for (int64_t i = 0; i < missing; ++i) pad += fill;
  return before ? pad + self.string() : self.string() + pad;
}

const Methods& string_methods() {
  static const Methods methods{
      {"strip", stripped<strip_both>},
      {"lstrip", stripped<strip_left>},
      {"rstrip", stripped<strip_right>},
      {"split",
       [](Interpreter& i, const Value& s, const Arguments& a) { return split(i, s, a, false); }},
      {"rsplit",
       [](Interpreter& i, const Value& s, const Arguments& a) { return split(i, s, a, true); }},
      {"splitlines",
       [](Interpreter& interpreter, const Value& s, const Arguments& a) {
         const bool keep = ArgumentReader("splitlines", a, {"keepends"}).truth(0, false);
         const auto lines = split_into_lines(s.string(), keep);
         interpreter.charge_elements(std::ssize(lines));
         return list_of(lines);
       }},
      {"startswith",
       [](Interpreter&, const Value& s, const Arguments& a) {
         return any_affix(
             s, a, [](std::string_view t, std::string_view affix) { return t.starts_with(affix); });
       }},
      {"endswith",
       [](Interpreter&, const Value& s, const Arguments& a) {
         return any_affix(
             s, a, [](std::string_view t, std::string_view affix) { return t.ends_with(affix); });
       }},
      {"find", [](Interpreter&, const Value& s,
                  const Arguments& a) { return position_of(s, a, false, false); }},
      {"rfind", [](Interpreter&, const Value& s,
                   const Arguments& a) { return position_of(s, a, true, false); }},
      {"index", [](Interpreter&, const Value& s,
                   const Arguments& a) { return position_of(s, a, false, true); }},
      {"rindex", [](Interpreter&, const Value& s,
                    const Arguments& a) { return position_of(s, a, true, true); }},
      {"count", count_text},
      {"replace", replaced},
      {"join", join_texts},
      {"upper", changed_text<upper_case>},
      {"lower", changed_text<lower_case>},
      {"title", changed_text<title_case>},
      {"capitalize", changed_text<capitalized>},
      {"isdigit", is_all<CharacterClass::digits>},
      {"isdecimal", is_all<CharacterClass::digits>},
      {"isnumeric", is_all<CharacterClass::digits>},
      {"isalpha", is_all<CharacterClass::letters>},
      {"isalnum", is_all<CharacterClass::letters_or_digits>},
      {"isspace", is_all<CharacterClass::spaces>},
      {"isupper", [](Interpreter&, const Value& s,
                     const Arguments&) { return Value(has_case(s.string(), true)); }},
      {"islower", [](Interpreter&, const Value& s,
                     const Arguments&) { return Value(has_case(s.string(), false)); }},
      {"removeprefix",
       [](Interpreter&, const Value& s, const Arguments& a) { return remove_affix(s, a, true); }},
      {"removesuffix",
       [](Interpreter&, const Value& s, const Arguments& a) { return remove_affix(s, a, false); }},
      {"ljust",
       [](Interpreter&, const Value& s, const Arguments& a) { return padded(s, a, false); }},
      {"rjust",
       [](Interpreter&, const Value& s, const Arguments& a) { return padded(s, a, true); }},
  };
  return methods;
}

Value get_or(Interpreter&, const Value& self, const Arguments& arguments) {
  const ArgumentReader read("get", arguments, {"key", "default"}, 1);
  const Value* found = self.dict()->find(read[0]);
  return found ? *found : read.value(1, {});
}

Value items_of(Interpreter&, const Value& self, const Arguments&) {
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->entries) {
    items.push_back(make_list({key, value}, List::Kind::tuple));
  }
  return make_list(std::move(items));
}

Value keys_of(Interpreter&, const Value& self, const Arguments&) {
  return make_list(iterate(self)->items);
}

Value values_of(Interpreter&, const Value& self, const Arguments&) {
  std::vector<Value> values;
  for (const auto& [key, value] : self.dict()->entries) values.push_back(value);
  return make_list(std::move(values));
}

Value same(Interpreter&, const Value& self, const Arguments&) {
  return self;
}

const Methods& dict_methods() {
  static const Methods methods{{"get", get_or},
                               {"items", items_of},
                               {"keys", keys_of},
                               {"values", values_of},
                               {"copy", same}};
  return methods;
}

Value index_in(Interpreter&, const Value& self, const Arguments& arguments) {
  const ArgumentReader read("index", arguments, {"value"}, 1);
  const auto& items = self.list()->items;
  const auto found =
      std::ranges::find_if(items, [&](const Value& item) { return equal(item, read[0]); });
  if (found == items.end()) throw TemplateError("index(): the list has no such element");
  return static_cast<int64_t>(found - items.begin());
}

Value count_in(Interpreter&, const Value& self, const Arguments& arguments) {
  const ArgumentReader read("count", arguments, {"value"}, 1);
  return static_cast<int64_t>(std::ranges::count_if(
      self.list()->items, [&](const Value& item) { return equal(item, read[0]); }));
}

const Methods& list_methods() {
  static const Methods methods{{"index", index_in}, {"count", count_in}, {"copy", same}};
  return methods;
}

Value cycle(Interpreter&, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) throw TemplateError("loop.cycle() needs values");
  return arguments
      .positional[static_cast<size_t>(self.loop()->index) % arguments.positional.size()];
}

Value changed(Interpreter&, const Value& self, const Arguments& arguments) {
  const Value now = make_list(arguments.positional, List::Kind::tuple);
  const bool is_new = !equal(self.loop()->last_changed, now);
  self.loop()->last_changed = now;
  return is_new;
}

const Methods& loop_methods() {
  static const Methods methods{{"cycle", cycle}, {"changed", changed}};
  return methods;
}

std::optional<Value> loop_attribute(const Loop& loop, const std::string& name) {
  const auto size = static_cast<int64_t>(loop.items->items.size());
  const auto neighbour = [&](int64_t index) {
    return index >= 0 && index < size ? loop.items->items[index]
                                      : Value::undefined("there is no " + name);
  };
  if (name == "index") return loop.index + 1;
  if (name == "index0") return loop.index;
  if (name == "revindex") return size - loop.index;
  if (name == "revindex0") return size - loop.index - 1;
  if (name == "first") return loop.index == 0;
  if (name == "last") return loop.index == size - 1;
  if (name == "length") return size;
  if (name == "depth") return loop.depth + 1;
  if (name == "depth0") return loop.depth;
  if (name == "previtem") return neighbour(loop.index - 1);
  if (name == "nextitem") return neighbour(loop.index + 1);
  return {};
}

const Methods* methods_of(const Value& object) {
  if (object.is_string()) return &string_methods();
  if (object.dict()) return &dict_methods();
  if (object.list() && object.list()->kind != List::Kind::generator) return &list_methods();
  return object.loop() ? &loop_methods() : nullptr;
}

// A conversion of a % format string, such as "%-08.3f".
struct Conversion {
  bool left = false, zeros = false;
  size_t width = 0;
  std::optional<int> precision;
  char kind = 's';
};

Conversion read_conversion(std::string_view& format) {
  Conversion conversion;
  const auto number = [&] {
    size_t value = 0;
    for (; !format.empty() && format[0] >= '0' && format[0] <= '9'; format.remove_prefix(1)) {
      value = std::min<size_t>(value * 10 + (format[0] - '0'), 1000);
    }
    return value;
  };
  for (; !format.empty() && (format[0] == '-' || format[0] == '0'); format.remove_prefix(1)) {
    (format[0] == '-' ? conversion.left : conversion.zeros) = true;
  }
  conversion.width = number();
  if (format.starts_with('.')) {
    format.remove_prefix(1);
    conversion.precision = static_cast<int>(number());
  }
  if (format.empty()) throw TemplateError("a format ends within %");
  conversion.kind = format[0];
  format.remove_prefix(1);
  return conversion;
}

std::string convert(const Conversion& conversion, const Value& value) {
  const bool is_text = conversion.kind == 's' || conversion.kind == 'r';
  if (!is_text && !value.is_number()) {
    throw TemplateError(
        fmt::format("%{} takes a number, not {}", conversion.kind, value.type_name()));
  }
  switch (conversion.kind) {
    case 's':
      return value.str();
    case 'r':
      return value.repr();
    case 'd':
    case 'i':
      return fmt::format("{}",
                         value.is_float() ? static_cast<int64_t>(value.number()) : value.integer());
    case 'x':
      if (value.is_float()) throw TemplateError("%x takes an integer");
      return fmt::format("{:x}", value.integer());
    case 'f':
      return fmt::format("{:.{}f}", value.number(),
                         std::min(conversion.precision.value_or(6), 100));
    default:
      throw TemplateError(
          fmt::format("%{} is not a conversion; available: s r d i x f", conversion.kind));
  }
}

std::string padded(const Conversion& conversion, std::string text) {
  const auto length = static_cast<size_t>(length_of(text));
  if (length >= conversion.width) return text;
  const size_t missing = conversion.width - length;
  if (conversion.left) return text + std::string(missing, ' ');
  if (!conversion.zeros || conversion.kind == 's') return std::string(missing, ' ') + text;
  return text.insert(text.starts_with('-'), missing, '0');
}

}  // namespace

std::optional<Value> find_attribute(const Value& object, const std::string& name) {
  if (object.loop()) {
    if (auto value = loop_attribute(*object.loop(), name)) return value;
  }
  const Methods* methods = methods_of(object);
  if (!methods) return {};
  const auto found = methods->find(name);
  if (found == methods->end()) return {};
  const Method method = found->second;
  return std::make_shared<const Function>(
      Function{name, [object, method](Interpreter& interpreter, const Arguments& arguments) {
                 interpreter.charge_for(object);
                 interpreter.charge_for(arguments, /*deep=*/object.list() || object.dict());
                 return method(interpreter, object, arguments);
               }});
}

Value percent_format(Interpreter& interpreter, const Value& format, const Value& values) {
  const bool several = values.list() && values.list()->kind == List::Kind::tuple;
  interpreter.charge_for(values);
  const auto items = several ? values.list()->items : std::vector<Value>{values};
  std::string text;
  size_t used = 0;
  std::string_view rest = format.string();
  for (size_t percent = rest.find('%'); percent != rest.npos; percent = rest.find('%')) {
    interpreter.append(text, rest.substr(0, percent));
    rest.remove_prefix(percent + 1);
    const Conversion conversion = read_conversion(rest);
    if (conversion.kind == '%') {
      text += '%';
      continue;
    }
    if (used == items.size()) throw TemplateError("a format has more % than values");
    interpreter.charge_for(items[used], /*deep=*/true);
    interpreter.append(text, padded(conversion, convert(conversion, items[used++])));
  }
  if (several && used < items.size()) throw TemplateError("a format has fewer % than values");
  return text += rest;
}

}  // namespace colossal::text::jinja
