// Describes, reads and shows the values of the keys of a ConfigSchema. ConfigType<T> is specialised
// for each type T that a key can have; to add a type, add a specialisation. The types, and their
// values in a TOML file:
//
//   bool, int, int64_t, double, std::string
//   std::chrono::milliseconds   "300s", "5m", "250ms", or a number of seconds
//   ByteSize                    "12GiB", "64KiB", or a number of bytes
//   an enumeration              its names, returned by a function config_names(E) in its namespace
//   std::vector<T>              a list
//   std::map<std::string, T>    an inline table
//   std::optional<T>            as for T, or the text KeyOptions::unset for nullopt: the program
//                               chooses the value
//   std::variant<T, ...>        as for the first alternative whose type fits. Any text fits a
//                               std::string or an enumeration. If the value breaks a rule of this
//                               alternative, such as a limit, the later ones are not tried
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/units.h"

namespace colossal {

// Options of a key, given to ConfigSchema::add().
struct KeyOptions {
  std::string unit = {};  // unit of a number, such as "steps"; shown in help
  // Limits, both included, of a number or of each number in a list; nullopt: no limit. In seconds
  // for durations, in bytes for sizes.
  std::optional<double> minimum = {};
  std::optional<double> maximum = {};
  // The allowed words of a text, or of each text in a list; empty: any text.
  std::vector<std::string> choices = {};
  // For a key of type std::optional: the text by which files and flags give nullopt, and as which
  // nullopt is shown. A word, or a description of the value that the program chooses, "the model's
  // positions".
  std::string unset = "auto";
  // Whether the ranks of a job may have different values. True for example for a path, a property
  // of the host, or a setting that only one rank uses.
  bool per_rank = false;
};

// Describes the values of a type, for help and error messages.
struct TypeDescription {
  // Name of the type: "whole number", "list of strings". "" if values are words of `choices`;
  // "list" if values are lists of such words.
  std::string name;
  std::string example;               // a valid value as TOML
  std::vector<std::string> choices;  // the allowed words; empty: no list of words
  std::string limits;                // "from 1"; "" if there are none
  std::string unset = {};            // KeyOptions::unset for std::optional, else ""

  // Returns text that describes all valid values: "a whole number of steps from 0, or one of: none,
  // full". unit: KeyOptions::unit.
  std::string values(const std::string& unit) const;
};

// Thrown if the type of the value is not the type of the key. ConfigSchema converts this and
// BadValue to a ConfigError with the key and the place of the value.
class WrongType : public ConfigError {
 public:
  WrongType() : ConfigError("wrong type") {}
};

// Thrown if the type of the value is right but the value breaks a rule. what() is that rule: "must
// be at least 1".
class BadValue : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

// Each specialisation has four functions:
// describe: describes the type, for help and error messages.
// parse:    converts the text of a flag to JSON: to the value that read() would get from a file.
// read:     converts JSON to a value of the type. Throws WrongType or BadValue.
// show:     converts a value of the type to JSON. Inverse of read(). null for nullopt; ConfigSchema
//           then shows KeyOptions::unset instead of null.
template <class T>
struct ConfigType;

// Returns the TOML value in the text of a flag, or the text itself if it is not a TOML value.
nlohmann::json toml_or_text(std::string_view text);
// Splits "a, b" at commas, and removes spaces and tabs around the items. Items may be empty: "a,,b"
// gives three. Returns no items if the text is empty or has only spaces and tabs.
std::vector<std::string> split_list(std::string_view text);
// Throws BadValue, because `word` is not in `choices`. The message lists the choices and the
// nearest.
[[noreturn]] void refuse_word(const std::string& word, const std::vector<std::string>& choices);

// The functions parse() and show() of most types.
template <class T>
struct PlainConfigType {
  static nlohmann::json parse(std::string_view flag, const KeyOptions&) {
    return toml_or_text(flag);
  }
  static nlohmann::json show(const T& value) { return value; }
};

template <>
struct ConfigType<bool> : PlainConfigType<bool> {
  static TypeDescription describe(const KeyOptions& options);
  static bool read(const nlohmann::json& found, const KeyOptions& options);
};

template <>
struct ConfigType<int64_t> : PlainConfigType<int64_t> {
  static TypeDescription describe(const KeyOptions& options);
  static int64_t read(const nlohmann::json& found, const KeyOptions& options);
};

template <>
struct ConfigType<int> : PlainConfigType<int> {
  static TypeDescription describe(const KeyOptions& options);
  static int read(const nlohmann::json& found, const KeyOptions& options);
};

template <>
struct ConfigType<double> : PlainConfigType<double> {
  static TypeDescription describe(const KeyOptions& options);
  static double read(const nlohmann::json& found, const KeyOptions& options);
};

template <>
struct ConfigType<std::string> : PlainConfigType<std::string> {
  static TypeDescription describe(const KeyOptions& options);
  static nlohmann::json parse(std::string_view flag, const KeyOptions& options);
  static std::string read(const nlohmann::json& found, const KeyOptions& options);
};

template <>
struct ConfigType<std::chrono::milliseconds> {
  static TypeDescription describe(const KeyOptions& options);
  static nlohmann::json parse(std::string_view flag, const KeyOptions& options);
  static std::chrono::milliseconds read(const nlohmann::json& found, const KeyOptions& options);
  static nlohmann::json show(std::chrono::milliseconds value);
};

template <>
struct ConfigType<ByteSize> {
  static TypeDescription describe(const KeyOptions& options);
  static nlohmann::json parse(std::string_view flag, const KeyOptions& options);
  static ByteSize read(const nlohmann::json& found, const KeyOptions& options);
  static nlohmann::json show(ByteSize value);
};

// An enumeration can be the type of a key if its namespace has a function such as this, which
// returns the word for each enumerator:
//   inline std::vector<std::pair<std::string, FileFormat>> config_names(FileFormat) {
//     return {{"text", FileFormat::text}, {"jsonl", FileFormat::jsonl}};
//   }
template <class E>
requires std::is_enum_v<E>
struct ConfigType<E> {
  static TypeDescription describe(const KeyOptions&) {
    std::vector<std::string> words;
    for (const auto& [word, value] : config_names(E{})) words.push_back(word);
    return {"", fmt::format("\"{}\"", words.front()), words, {}};
  }
  static nlohmann::json parse(std::string_view flag, const KeyOptions&) {
    return std::string(flag);
  }
  static E read(const nlohmann::json& found, const KeyOptions& options) {
    if (!found.is_string()) throw WrongType();
    const auto text = found.get<std::string>();
    for (const auto& [word, value] : config_names(E{})) {
      if (word == text) return value;
    }
    refuse_word(text, describe(options).choices);
  }
  static nlohmann::json show(E value) {
    for (const auto& [word, each] : config_names(E{})) {
      if (each == value) return word;
    }
    return nullptr;
  }
};

template <class T>
struct ConfigType<std::vector<T>> {
  static TypeDescription describe(const KeyOptions& options) {
    const TypeDescription item = ConfigType<T>::describe(options);
    // An item without a type name is one of the words of `choices`.
    return {item.name.empty() ? "list" : fmt::format("list of {}s", item.name),
            fmt::format("[{0}, {0}]", item.example), item.choices, item.limits};
  }
  static nlohmann::json parse(std::string_view flag, const KeyOptions& options) {
    if (flag.starts_with('[')) return toml_or_text(flag);
    nlohmann::json list = nlohmann::json::array();
    for (const std::string& item : split_list(flag)) {
      list.push_back(ConfigType<T>::parse(item, options));
    }
    return list;
  }
  static std::vector<T> read(const nlohmann::json& found, const KeyOptions& options) {
    if (!found.is_array()) throw WrongType();
    std::vector<T> list;
    for (const nlohmann::json& item : found) list.push_back(ConfigType<T>::read(item, options));
    return list;
  }
  static nlohmann::json show(const std::vector<T>& value) {
    nlohmann::json list = nlohmann::json::array();
    for (const T& item : value) list.push_back(ConfigType<T>::show(item));
    return list;
  }
};

template <class T>
struct ConfigType<std::map<std::string, T>> {
  static TypeDescription describe(const KeyOptions& options) {
    const TypeDescription item = ConfigType<T>::describe(options);
    return {fmt::format("table of {}s", item.name), fmt::format("{{name = {}}}", item.example),
            item.choices, item.limits};
  }
  static nlohmann::json parse(std::string_view flag, const KeyOptions&) {
    return toml_or_text(flag);
  }
  static std::map<std::string, T> read(const nlohmann::json& found, const KeyOptions& options) {
    if (!found.is_object()) throw WrongType();
    std::map<std::string, T> table;
    for (const auto& [name, item] : found.items()) {
      table.emplace(name, ConfigType<T>::read(item, options));
    }
    return table;
  }
  static nlohmann::json show(const std::map<std::string, T>& value) {
    nlohmann::json table = nlohmann::json::object();
    for (const auto& [name, item] : value) table[name] = ConfigType<T>::show(item);
    return table;
  }
};

template <class T>
struct ConfigType<std::optional<T>> {
  static TypeDescription describe(const KeyOptions& options) {
    TypeDescription description = ConfigType<T>::describe(options);
    description.unset = options.unset;
    return description;
  }
  static nlohmann::json parse(std::string_view flag, const KeyOptions& options) {
    if (flag == options.unset) return std::string(flag);
    return ConfigType<T>::parse(flag, options);
  }
  static std::optional<T> read(const nlohmann::json& found, const KeyOptions& options) {
    if (found.is_null() || found == options.unset) return std::nullopt;
    return ConfigType<T>::read(found, options);
  }
  static nlohmann::json show(const std::optional<T>& value) {
    return value ? ConfigType<T>::show(*value) : nlohmann::json();
  }
};

template <class... Ts>
struct ConfigType<std::variant<Ts...>> {
  using Value = std::variant<Ts...>;

  static TypeDescription describe(const KeyOptions& options) {
    TypeDescription all;
    for (const TypeDescription& each : {ConfigType<Ts>::describe(options)...}) {
      all.name += (all.name.empty() || each.name.empty() ? "" : " or ") + each.name;
      all.example = each.example;
      if (all.limits.empty()) all.limits = each.limits;
      all.choices.insert(all.choices.end(), each.choices.begin(), each.choices.end());
    }
    return all;
  }
  // Leaves the choice of the alternative to read(): the text alone does not tell which one it is.
  static nlohmann::json parse(std::string_view flag, const KeyOptions&) {
    return toml_or_text(flag);
  }
  static Value read(const nlohmann::json& found, const KeyOptions& options) {
    std::optional<Value> value;
    (try_read<Ts>(found, options, value), ...);
    if (!value) throw WrongType();
    return *std::move(value);
  }
  static nlohmann::json show(const Value& value) {
    return std::visit(
        [](const auto& held) { return ConfigType<std::decay_t<decltype(held)>>::show(held); },
        value);
  }

 private:
  template <class T>
  static void try_read(const nlohmann::json& found, const KeyOptions& options,
                       std::optional<Value>& value) {
    if (value) return;
    try {
      value = ConfigType<T>::read(found, options);
    } catch (const WrongType&) {  // try the next alternative
    }
  }
};

}  // namespace colossal
