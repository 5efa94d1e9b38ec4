#include "colossal/text/jinja/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_set>

#include "colossal/text/jinja/arguments.h"
#include "colossal/text/jinja/methods.h"
#include "colossal/text/jinja/operators.h"
#include "colossal/text/jinja/python_text.h"

namespace colossal::text::jinja {
namespace {

Value checked(Interpreter& interpreter, std::string text) {
  interpreter.charge(text.size());
  return text;
}

// --- filters of any value

Value default_filter(Interpreter&, const Value& value, const Arguments& arguments) {
  const ArgumentReader read("default", arguments, {"default_value", "boolean"});
  const bool missing = value.is_undefined() || (read.truth(1, false) && !value.truth());
  return missing ? read.value(0, "") : value;
}

Value length_filter(Interpreter& interpreter, const Value& value, const Arguments&) {
  if (value.is_string()) return length_of(value.string());
  if (value.list() && value.list()->kind == List::Kind::generator) {
    throw TemplateError("a generator has no length");
  }
  return static_cast<int64_t>(interpreter.iterate(value)->items.size());
}

Value tojson_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const ArgumentReader read("tojson", arguments,
                            {"ensure_ascii", "indent", "separators", "sort_keys"});
  const bool indents = read.has(1) && !read[1].is_none();
  const int64_t indent = indents ? std::clamp<int64_t>(read.integer(1, 0), 0, 64) : -1;
  std::string item_end = indents ? "," : ", ", key_end = ": ";
  if (read.has(2) && !read[2].is_none()) {
    const auto separators = interpreter.iterate(read[2]);
    if (separators->items.size() != 2) throw TemplateError("tojson: separators are two strings");
    item_end = interpreter.text_of(separators->items[0]);
    key_end = interpreter.text_of(separators->items[1]);
  }
  return checked(interpreter,
                 to_json(value, read.truth(0, false), static_cast<int>(indent), item_end, key_end,
                         read.truth(3, false), interpreter.max_bytes()));
}

// --- filters of text

template <std::string (*change)(std::string_view)>
Value text_filter(Interpreter& interpreter, const Value& value, const Arguments&) {
  return checked(interpreter, change(interpreter.text_of(value)));
}

Value string_filter(Interpreter& interpreter, const Value& value, const Arguments&) {
  return value.is_string() ? value : checked(interpreter, interpreter.text_of(value));
}

Value trim_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const ArgumentReader read("trim", arguments, {"chars"});
  interpreter.charge_for(arguments);
  return strip_both(interpreter.text_of(value), read.optional_string(0));
}

Value replace_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const ArgumentReader read("replace", arguments, {"old", "new", "count"}, 2);
  return checked(interpreter, replace_text(interpreter.text_of(value), interpreter.text_of(read[0]),
                                           interpreter.text_of(read[1]), read.integer(2, -1),
                                           interpreter.max_bytes()));
}

// Replaces &, <, >, ' and " by HTML entities.
std::string escaped_html(std::string_view text) {
  std::string result;
  for (const char byte : text) {
    switch (byte) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '\'':
        result += "&#39;";
        break;
      case '"':
        result += "&#34;";
        break;
      default:
        result += byte;
    }
  }
  return result;
}

Value indent_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const ArgumentReader read("indent", arguments, {"width", "first", "blank"});
  const std::string indent =
      read.has(0) && read[0].is_string()
          ? read[0].string()
          : std::string(static_cast<size_t>(std::clamp<int64_t>(read.integer(0, 4), 0, 1000)), ' ');
  std::string text;
  bool first = true;
  for (const std::string& line : split_into_lines(interpreter.text_of(value) + "\n", false)) {
    const bool indented = first ? read.truth(1, false) : read.truth(2, false) || !line.empty();
    interpreter.append(text, first ? "" : "\n");
    interpreter.append(text, indented ? indent : "");
    interpreter.append(text, line);
    first = false;
  }
  return text;
}

Value join_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const ArgumentReader read("join", arguments, {"d", "attribute"});
  const std::string between = interpreter.text_of(read.value(0, ""));
  std::string text;
  bool first = true;
  for (const auto all = interpreter.iterate(value); const Value& item : all->items) {
    const Value part = read.has(1) ? get_item(item, read[1]) : item;
    if (!first) interpreter.append(text, between);
    interpreter.append(text, interpreter.text_of(part));
    first = false;
  }
  return text;
}

Value format_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return percent_format(interpreter, interpreter.text_of(value),
                        make_list(arguments.positional, List::Kind::tuple));
}

Value truncate_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const ArgumentReader read("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const std::string text = interpreter.text_of(value), end(read.string(2, "..."));
  const int64_t length = read.integer(0, 255);
  if (length_of(text) <= length + read.integer(3, 5)) return text;
  std::string cut(first_characters(text, length - length_of(end)));
  if (!read.truth(1, false)) cut = cut.substr(0, cut.rfind(' '));
  return cut + end;
}

Value wordcount_filter(Interpreter& interpreter, const Value& value, const Arguments&) {
  return static_cast<int64_t>(split_text(interpreter.text_of(value), {}, -1).size());
}

// --- filters of numbers

std::optional<double> number_of(const Value& value) {
  if (value.is_number()) return value.number();
  if (!value.is_string()) return {};
  const std::string_view text = strip_both(value.string());
  double number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size()) return {};
  return number;
}

Value int_filter(Interpreter&, const Value& value, const Arguments& arguments) {
  const ArgumentReader read("int", arguments, {"default", "base"});
  if (value.is_integer() || value.is_boolean()) return value.integer();
  const auto number = number_of(value);
  if (!number || !(std::fabs(*number) < 9e18)) return read.value(0, int64_t{0});
  return static_cast<int64_t>(*number);
}

Value float_filter(Interpreter&, const Value& value, const Arguments& arguments) {
  const auto number = number_of(value);
  if (number) return *number;
  return ArgumentReader("float", arguments, {"default"}).value(0, 0.0);
}

Value abs_filter(Interpreter&, const Value& value, const Arguments&) {
  if (value.is_float()) return std::fabs(value.number());
  if (!value.is_number() || value.integer() == INT64_MIN) {
    throw TemplateError(fmt::format("abs: not of a value of type {}", value.type_name()));
  }
  return std::abs(value.integer());
}

Value round_filter(Interpreter&, const Value& value, const Arguments& arguments) {
  const ArgumentReader read("round", arguments, {"precision", "method"});
  if (!value.is_number()) throw TemplateError("round: takes a number, not " + value.type_name());
  const double scale = std::pow(10.0, static_cast<double>(read.integer(0, 0)));
  const std::string_view method = read.string(1, "common");
  const double scaled = value.number() * scale;
  if (method == "ceil") return std::ceil(scaled) / scale;
  if (method == "floor") return std::floor(scaled) / scale;
  return std::nearbyint(scaled) / scale;
}

// --- filters of sequences

Value list_filter(Interpreter& interpreter, const Value& value, const Arguments&) {
  return make_list(interpreter.iterate(value)->items);
}

Value first_filter(Interpreter& interpreter, const Value& value, const Arguments&) {
  const auto items = interpreter.iterate(value);
  return items->items.empty() ? Value::undefined("No first item, sequence was empty.")
                              : items->items.front();
}

Value last_filter(Interpreter& interpreter, const Value& value, const Arguments&) {
  const auto items = interpreter.iterate(value);
  return items->items.empty() ? Value::undefined("No last item, sequence was empty.")
                              : items->items.back();
}

Value reverse_filter(Interpreter& interpreter, const Value& value, const Arguments&) {
  auto items = interpreter.iterate(value)->items;
  std::ranges::reverse(items);
  if (!value.is_string()) return make_list(std::move(items), List::Kind::generator);
  std::string text;
  for (const Value& character : items) text += character.string();
  return text;
}

Value items_filter(Interpreter& interpreter, const Value& value, const Arguments&) {
  if (value.is_undefined()) return make_list({}, List::Kind::generator);
  if (!value.dict()) throw TemplateError("items: takes a dict, not " + value.type_name());
  interpreter.charge_for(value);
  std::vector<Value> items;
  for (const auto& [key, item] : value.dict()->entries) {
    items.push_back(make_list({key, item}, List::Kind::tuple));
  }
  return make_list(std::move(items), List::Kind::generator);
}

// Returns the sort key of a value: texts in lower case unless case_sensitive.
Value folded(const Value& value, bool case_sensitive) {
  return value.is_string() && !case_sensitive ? Value(lower_case(value.string())) : value;
}

// Sorts items by key(item), which is called once per item.
template <class Key>
Value sorted_by(Interpreter& interpreter, const std::vector<Value>& items, bool reverse, Key key) {
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items) {
    keyed.emplace_back(key(item), item);
    // Charges for about log2(n) comparisons of the key.
    for (size_t i = items.size(); i > 0; i /= 2) {
      interpreter.charge_for(keyed.back().first, /*deep=*/true);
    }
  }
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    return reverse ? compare(b.first, a.first) < 0 : compare(a.first, b.first) < 0;
  });
  std::vector<Value> sorted;
  for (auto& [key_of_item, item] : keyed) sorted.push_back(std::move(item));
  return make_list(std::move(sorted));
}

Value dictsort_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const ArgumentReader read("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const auto items = items_filter(interpreter, value, {}).list()->items;
  const size_t part = read.string(1, "key") == "value" ? 1 : 0;
  return sorted_by(interpreter, items, read.truth(2, false), [&](const Value& item) {
    const Value& key = item.list()->items[part];
    interpreter.charge_for(key);
    return folded(key, read.truth(0, false));
  });
}

// An attribute path such as "a.b"; without one, of() returns the item itself.
class Path {
 public:
  Path(Interpreter& interpreter, std::optional<std::string_view> path) : interpreter_(interpreter) {
    if (!path) return;
    for (const std::string& name : split_text(*path, ".", -1)) {
      const bool is_index = all_are(name, CharacterClass::digits) && name.size() < 10;
      names_.push_back(is_index ? Value(int64_t{std::stoi(name)}) : Value(name));
    }
  }

  Value of(const Value& item) const {
    interpreter_.charge_elements(static_cast<int64_t>(names_.size()));
    Value value = item;
    for (const Value& name : names_) value = get_item(value, name);
    if (value.is_string()) interpreter_.charge_for(value);  // the caller compares or folds it
    return value;
  }

 private:
  Interpreter& interpreter_;
  std::vector<Value> names_;
};

Value sort_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const ArgumentReader read("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const Path path(interpreter, read.optional_string(2));
  const auto items = interpreter.iterate(value);
  return sorted_by(interpreter, items->items, read.truth(0, false),
                   [&](const Value& item) { return folded(path.of(item), read.truth(1, false)); });
}

Value unique_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const ArgumentReader read("unique", arguments, {"case_sensitive", "attribute"});
  const Path path(interpreter, read.optional_string(1));
  std::vector<Value> kept;
  std::unordered_set<Value, ValueHash, ValueEqual> keys;
  for (const auto all = interpreter.iterate(value); const Value& item : all->items) {
    Value key = folded(path.of(item), read.truth(0, false));
    interpreter.charge_for(key, /*deep=*/true);
    require_hashable(key);
    if (keys.insert(std::move(key)).second) kept.push_back(item);
  }
  return make_list(std::move(kept), List::Kind::generator);
}

template <int sign>
Value extreme_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const ArgumentReader read("min or max", arguments, {"case_sensitive", "attribute"});
  const Path path(interpreter, read.optional_string(1));
  const auto items = interpreter.iterate(value);
  if (items->items.empty()) return Value::undefined("the sequence is empty");
  Value best, best_key;
  for (const Value& item : items->items) {
    Value key = folded(path.of(item), read.truth(0, false));
    interpreter.charge_for(key, /*deep=*/true);
    const bool is_first = &item == &items->items.front();
    if (!is_first && sign * compare(key, best_key) <= 0) continue;
    best = item;
    best_key = std::move(key);
  }
  return best;
}

Value sum_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const ArgumentReader read("sum", arguments, {"attribute", "start"});
  const Path path(interpreter, read.optional_string(0));
  Value sum = read.value(1, int64_t{0});
  for (const auto all = interpreter.iterate(value); const Value& item : all->items) {
    sum = calculate(interpreter, Operator::add, sum, path.of(item));
  }
  return sum;
}

Value batch_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const ArgumentReader read("batch", arguments, {"linecount", "fill_with"}, 1);
  const auto size = static_cast<size_t>(std::max<int64_t>(read.integer(0, 1), 1));
  std::vector<Value> batches, batch;
  const auto end_batch = [&] { batches.push_back(make_list(std::exchange(batch, {}))); };
  for (const auto all = interpreter.iterate(value); const Value& item : all->items) {
    batch.push_back(item);
    if (batch.size() == size) end_batch();
  }
  if (!batch.empty()) {
    if (read.has(1) && !read[1].is_none()) {
      interpreter.charge_elements(static_cast<int64_t>(std::min<size_t>(size, size_t{1} << 40)));
      batch.resize(size, read[1]);
    }
    end_batch();
  }
  return make_list(std::move(batches), List::Kind::generator);
}

Arguments without_first(const Arguments& arguments, size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                         arguments.positional.end());
  return rest;
}

Value map_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  std::vector<Value> mapped;
  const auto items = interpreter.iterate(value);
  if (arguments.positional.empty()) {
    const ArgumentReader read("map", arguments, {"attribute", "default"}, 1);
    const Path path(interpreter, read.optional_string(0));
    for (const Value& item : items->items) {
      Value found = path.of(item);
      mapped.push_back(found.is_undefined() && read.has(1) ? read[1] : std::move(found));
    }
  } else {
    const Filter filter = find_filter(interpreter.text_of(arguments.positional[0]));
    Arguments rest = without_first(arguments, 1);
    rest.named = arguments.named;
    for (const Value& item : items->items) {
      interpreter.count_call();
      interpreter.charge_for(item);
      mapped.push_back(filter(interpreter, item, rest));
    }
  }
  return make_list(std::move(mapped), List::Kind::generator);
}

// Implements select, reject, selectattr and rejectattr: keeps the items for which the test gives
// `wanted`.
template <bool wanted, bool by_attribute>
Value select_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  constexpr size_t kFirst = by_attribute ? 1 : 0;
  if (arguments.positional.size() < kFirst) throw TemplateError("selectattr: needs an attribute");
  std::vector<Value> kept;
  const bool has_test = arguments.positional.size() > kFirst;
  const Test test =
      has_test ? find_test(interpreter.text_of(arguments.positional[kFirst])) : nullptr;
  const Arguments rest = without_first(arguments, kFirst + has_test);
  std::optional<std::string> name;
  if (by_attribute) name = interpreter.text_of(arguments.positional[0]);
  const Path path(interpreter, name);
  for (const auto all = interpreter.iterate(value); const Value& item : all->items) {
    const Value subject = path.of(item);
    interpreter.count_call();
    const bool holds = test ? run_test(interpreter, test, subject, rest) : subject.truth();
    if (holds == wanted) kept.push_back(item);
  }
  return make_list(std::move(kept), List::Kind::generator);
}

const std::map<std::string_view, Filter>& all_filters() {
  static const std::map<std::string_view, Filter> filters{
      {"abs", abs_filter},
      {"batch", batch_filter},
      {"capitalize", text_filter<capitalized>},
      {"count", length_filter},
      {"d", default_filter},
      {"default", default_filter},
      {"dictsort", dictsort_filter},
      {"e", text_filter<escaped_html>},
      {"escape", text_filter<escaped_html>},
      {"first", first_filter},
      {"float", float_filter},
      {"format", format_filter},
      {"indent", indent_filter},
      {"int", int_filter},
      {"items", items_filter},
      {"join", join_filter},
      {"last", last_filter},
      {"length", length_filter},
      {"list", list_filter},
      {"lower", text_filter<lower_case>},
      {"map", map_filter},
      {"max", extreme_filter<1>},
      {"min", extreme_filter<-1>},
      {"reject", select_filter<false, false>},
      {"rejectattr", select_filter<false, true>},
      {"replace", replace_filter},
      {"reverse", reverse_filter},
      {"round", round_filter},
      {"safe", string_filter},
      {"select", select_filter<true, false>},
      {"selectattr", select_filter<true, true>},
      {"sort", sort_filter},
      {"string", string_filter},
      {"sum", sum_filter},
      {"title", text_filter<title_case>},
      {"tojson", tojson_filter},
      {"trim", trim_filter},
      {"truncate", truncate_filter},
      {"unique", unique_filter},
      {"upper", text_filter<upper_case>},
      {"wordcount", wordcount_filter},
  };
  return filters;
}

}  // namespace

Filter find_filter(std::string_view name) {
  const auto found = all_filters().find(name);
  if (found == all_filters().end()) {
    throw TemplateError(fmt::format("there is no filter '{}'", name));
  }
  return found->second;
}

}  // namespace colossal::text::jinja
