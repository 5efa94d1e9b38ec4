#include "colossal/text/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "colossal/text/jinja/python_text.h"
#include "colossal/text/utf8.h"

namespace colossal::text::jinja {
namespace {

constexpr int kMaxValueDepth = 100;

constexpr int64_t kMaxValueSize = int64_t{1} << 26;

void include(Extent& whole, const Value& part) {
  const Extent inner = extent_of(part);
  whole.depth = std::max(whole.depth, inner.depth + 1);
  whole.size += inner.size;
  if (whole.depth > kMaxValueDepth || whole.size > kMaxValueSize) {
    throw TemplateError(
        fmt::format("a list or a dict is nested deeper than {} levels, or holds more than {} MiB",
                    kMaxValueDepth, kMaxValueSize >> 20));
  }
}

template <class T, class Variant>
T* held(const Variant& data) {
  const auto* pointer = std::get_if<std::shared_ptr<T>>(&data);
  return pointer ? pointer->get() : nullptr;
}

std::string joined(const std::vector<Value>& items) {
  std::string text;
  for (const Value& item : items) text += (text.empty() ? "" : ", ") + item.repr();
  return text;
}

std::string list_repr(const List& list) {
  if (list.kind == List::Kind::generator) return "<generator object>";
  if (list.kind == List::Kind::list) return "[" + joined(list.items) + "]";
  return "(" + joined(list.items) + (list.items.size() == 1 ? ",)" : ")");
}

std::string dict_repr(const Dict& dict) {
  std::string text;
  for (const auto& [key, value] : dict.entries) {
    text += (text.empty() ? "" : ", ") + key.repr() + ": " + value.repr();
  }
  return "{" + text + "}";
}

bool same_items(const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
}

bool same_entries(const Dict& a, const Dict& b) {
  return a.entries.size() == b.entries.size() &&
         std::ranges::all_of(a.entries, [&](const auto& entry) {
           const Value* other = b.find(entry.first);
           return other && equal(entry.second, *other);
         });
}

int compare_lists(const List& a, const List& b) {
  for (size_t i = 0; i < std::min(a.items.size(), b.items.size()); ++i) {
    if (!equal(a.items[i], b.items[i])) return compare(a.items[i], b.items[i]);
  }
  return a.items.size() < b.items.size() ? -1 : a.items.size() > b.items.size();
}

}  // namespace

Value Value::undefined(std::string name) {
  Value value;
  value.data_ = std::make_shared<const Undefined>(Undefined{std::move(name)});
  return value;
}

Value Value::from_json(const nlohmann::ordered_json& json) {
  switch (json.type()) {
    case nlohmann::json::value_t::boolean:
      return json.get<bool>();
    case nlohmann::json::value_t::number_integer:
      return json.get<int64_t>();
    case nlohmann::json::value_t::number_unsigned:
      if (json.get<uint64_t>() > INT64_MAX) return json.get<double>();
      return json.get<int64_t>();
    case nlohmann::json::value_t::number_float:
      return json.get<double>();
    case nlohmann::json::value_t::string:
      return json.get_ref<const std::string&>();
    case nlohmann::json::value_t::array: {
      std::vector<Value> items;
      for (const auto& item : json) items.push_back(from_json(item));
      return make_list(std::move(items));
    }
    case nlohmann::json::value_t::object: {
      std::vector<std::pair<Value, Value>> entries;
      for (const auto& [key, item] : json.items()) entries.emplace_back(key, from_json(item));
      return make_dict(std::move(entries));
    }
    default:
      return {};
  }
}

int64_t Value::integer() const {
  return is_boolean() ? std::get<bool>(data_) : std::get<int64_t>(data_);
}
double Value::number() const {
  return is_float() ? std::get<double>(data_) : static_cast<double>(integer());
}
const std::string& Value::string() const {
  return *std::get<std::shared_ptr<const std::string>>(data_);
}
const List* Value::list() const {
  return held<const List>(data_);
}
const Dict* Value::dict() const {
  return held<const Dict>(data_);
}
Namespace* Value::space() const {
  return held<Namespace>(data_);
}
Loop* Value::loop() const {
  return held<Loop>(data_);
}
const Function* Value::function() const {
  return held<const Function>(data_);
}
const std::string& Value::undefined_name() const {
  return std::get<std::shared_ptr<const Undefined>>(data_)->name;
}

bool Value::truth() const {
  if (is_none() || is_undefined()) return false;
  if (is_number()) return number() != 0;
  if (is_string()) return !string().empty();
  if (const List* items = list()) {
    return items->kind == List::Kind::generator || !items->items.empty();
  }
  if (const Dict* entries = dict()) return !entries->entries.empty();
  return true;
}

std::string Value::type_name() const {
  if (is_none()) return "NoneType";
  if (is_undefined()) return "Undefined";
  if (is_boolean()) return "bool";
  if (is_integer()) return "int";
  if (is_float()) return "float";
  if (is_string()) return "str";
  if (dict()) return "dict";
  if (space()) return "Namespace";
  if (loop()) return "LoopContext";
  if (function()) return "function";
  const char* names[] = {"list", "tuple", "generator"};
  return names[static_cast<int>(list()->kind)];
}

std::string Value::str() const {
  if (is_string()) return string();
  return is_undefined() ? std::string() : repr();
}

std::string Value::repr() const {
  if (is_none()) return "None";
  if (is_undefined()) return "Undefined";
  if (is_boolean()) return integer() ? "True" : "False";
  if (is_integer()) return std::to_string(integer());
  if (is_float()) return python_float(number());
  if (is_string()) return python_quoted(string());
  if (const List* items = list()) return list_repr(*items);
  if (const Dict* entries = dict()) return dict_repr(*entries);
  return "<" + type_name() + (function() ? " " + function()->name : "") + ">";
}

Extent extent_of(const Value& value) {
  if (const List* items = value.list()) return items->extent;
  if (const Dict* entries = value.dict()) return entries->extent;
  return {.size = value.is_string() ? static_cast<int64_t>(value.string().size()) + 1 : 1};
}

size_t ValueHash::operator()(const Value& value) const {
  if (value.is_string()) return std::hash<std::string>()(value.string());
  if (value.is_number()) return std::hash<double>()(value.number());  // 1 == 1.0 == True
  size_t hash = 0;
  if (const List* list = value.list()) {
    for (const Value& item : list->items) hash = hash * 31 + (*this)(item);
  }
  return hash;
}

const Value* Dict::find(const Value& key) const {
  const auto found = places.find(key);
  return found == places.end() ? nullptr : &entries[found->second].second;
}

const Value* Namespace::find(std::string_view name) const {
  const auto found = entries.find(name);
  return found == entries.end() ? nullptr : &found->second;
}

void require_hashable(const Value& key) {
  const List* list = key.list();
  if (key.dict() || (list && list->kind != List::Kind::tuple)) {
    throw TemplateError(
        fmt::format("a value of type {} cannot be a key, as it could change", key.type_name()));
  }
  if (key.is_float() && std::isnan(key.number())) {
    throw TemplateError("nan cannot be a key, as it equals nothing");
  }
  if (!list) return;
  for (const Value& item : list->items) require_hashable(item);
}

Value make_list(std::vector<Value> items, List::Kind kind) {
  Extent extent{.depth = 1};
  for (const Value& item : items) include(extent, item);
  return std::make_shared<const List>(List{std::move(items), kind, extent});
}

Value make_dict(std::vector<std::pair<Value, Value>> entries) {
  auto dict = std::make_shared<Dict>();
  dict->extent.depth = 1;
  for (auto& [key, value] : entries) {
    include(dict->extent, key);
    include(dict->extent, value);
    require_hashable(key);
    const auto [place, is_new] = dict->places.try_emplace(key, dict->entries.size());
    if (is_new) {
      dict->entries.emplace_back(std::move(key), std::move(value));
    } else {
      dict->entries[place->second].second = std::move(value);
    }
  }
  return std::shared_ptr<const Dict>(std::move(dict));
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) return a.number() == b.number();
    return a.integer() == b.integer();
  }
  if (a.is_string() && b.is_string()) return a.string() == b.string();
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.list() && b.list()) {
    return a.list()->kind == b.list()->kind && same_items(a.list()->items, b.list()->items);
  }
  if (a.dict() && b.dict()) return same_entries(*a.dict(), *b.dict());
  if (a.space()) return a.space() == b.space();
  if (a.loop()) return a.loop() == b.loop();
  return a.function() && a.function() == b.function();
}

int compare(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) {
      return a.number() < b.number() ? -1 : a.number() > b.number();
    }
    return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
  }
  // The order of UTF-8 bytes is that of the code points.
  if (a.is_string() && b.is_string()) return a.string().compare(b.string());
  if (a.list() && b.list() && a.list()->kind == b.list()->kind) {
    return compare_lists(*a.list(), *b.list());
  }
  throw TemplateError(
      fmt::format("values of types {} and {} cannot be ordered", a.type_name(), b.type_name()));
}

std::shared_ptr<const List> iterate(const Value& value) {
  auto items = std::make_shared<List>();
  if (const List* list = value.list()) {
    items->items = list->items;
  } else if (const Dict* dict = value.dict()) {
    for (const auto& [key, unused] : dict->entries) items->items.push_back(key);
  } else if (value.is_string()) {
    for (std::string& character : characters_of(value.string())) {
      items->items.emplace_back(std::move(character));
    }
  } else if (!value.is_undefined()) {
    throw TemplateError(fmt::format("a value of type {} is not a sequence", value.type_name()));
  }
  return items;
}

}  // namespace colossal::text::jinja
