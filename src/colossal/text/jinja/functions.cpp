#include "colossal/text/jinja/functions.h"

#include <array>
#include <chrono>
#include <ctime>
#include <map>

#include "colossal/text/jinja/arguments.h"
#include "colossal/text/jinja/interpreter.h"

namespace colossal::text::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // as in Jinja's sandbox

Value range_of(Interpreter& interpreter, const Arguments& arguments) {
  const ArgumentReader read("range", arguments, {"start", "stop", "step"}, 1);
  const int64_t begin = read.has(1) ? read.integer(0, 0) : 0;
  const int64_t end = read.has(1) ? read.integer(1, 0) : read.integer(0, 0);
  const int64_t step = read.integer(2, 1);
  if (step == 0) throw TemplateError("range(): the step is 0");
  std::vector<Value> items;
  for (__int128 i = begin; step > 0 ? i < end : i > end; i += step) {
    if (static_cast<int64_t>(items.size()) == kMaxRange) {
      throw TemplateError(fmt::format("range() is longer than {}", kMaxRange));
    }
    items.emplace_back(static_cast<int64_t>(i));
  }
  interpreter.charge_elements(static_cast<int64_t>(items.size()));
  return make_list(std::move(items));
}

Value dict_of(Interpreter& interpreter, const Arguments& arguments) {
  interpreter.charge_for(arguments, /*deep=*/true);
  std::vector<std::pair<Value, Value>> entries;
  for (const Value& first : arguments.positional) {
    if (first.dict()) {
      entries = first.dict()->entries;
      continue;
    }
    for (const auto all = interpreter.iterate(first); const Value& pair : all->items) {
      if (!pair.list() || pair.list()->items.size() != 2) {
        throw TemplateError("dict() takes a dict or pairs");
      }
      entries.emplace_back(pair.list()->items[0], pair.list()->items[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) entries.emplace_back(name, value);
  return make_dict(std::move(entries));
}

Value namespace_of(Interpreter& interpreter, const Arguments& arguments) {
  auto space = interpreter.make_namespace();
  const Value initial = dict_of(interpreter, arguments);
  for (const auto& [name, value] : initial.dict()->entries) space->entries[name.str()] = value;
  return space;
}

[[noreturn]] Value raise_exception(Interpreter& interpreter, const Arguments& arguments) {
  const ArgumentReader read("raise_exception", arguments, {"message"}, 1);
  throw TemplateRefusal(interpreter.text_of(read[0]));
}

Value strftime_now(Interpreter&, const Arguments& arguments) {
  const std::string format(ArgumentReader("strftime_now", arguments, {"format"}, 1).string(0));
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 1024> text;
  return std::string(text.data(), std::strftime(text.data(), text.size(), format.c_str(), &local));
}

Value function_value(const char* name, Value (*call)(Interpreter&, const Arguments&)) {
  return std::make_shared<const Function>(Function{name, call});
}

}  // namespace

Value find_global(const std::string& name) {
  static const std::map<std::string, Value> globals{
      {"range", function_value("range", range_of)},
      {"dict", function_value("dict", dict_of)},
      {"namespace", function_value("namespace", namespace_of)},
      {"raise_exception", function_value("raise_exception", raise_exception)},
      {"strftime_now", function_value("strftime_now", strftime_now)},
  };
  const auto found = globals.find(name);
  return found == globals.end() ? Value::undefined(name) : found->second;
}

}  // namespace colossal::text::jinja
