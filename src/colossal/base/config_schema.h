// ConfigSchema: declares the keys of a configuration, and reads their values from TOML files and
// command-line flags. A key is declared once, with its type, limits, default and help text; the
// help of the commands and the documentation are made from these declarations.
//
//   RunConfig config;
//   ConfigSchema schema;
//   schema.add("train.steps", &config.train.steps, "How many updates to make in all.",
//              {.unit = "steps", .minimum = 1});
//   schema.add("parallel.backend", &config.parallel.backend, "What carries data between ranks.",
//              {.choices = {"auto", "gloo", "nccl"}});
//   schema.open_section("model", &config.model.overrides, "Any field of config.json.");
//   schema.read_file("run.toml");
//   schema.set_flag("--train.steps=100");
//
// The default of a key is the value of its target when add() is called. read_file(), set() and
// set_flag() write values to the targets, which must outlive the schema. config_value.h lists the
// types that a key can have, and has KeyOptions.
//
// Wrong user input throws ConfigError. The message has the place where the value was given (file
// and line, or flag), what was found, and what would be valid. For an unknown key it has the
// nearest key.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/base/config_value.h"

namespace colossal {

// Where a value comes from. A later source in this list overrides an earlier source.
enum class ConfigSource { by_default, file, flag };
const char* config_source_name(ConfigSource source);  // "default", "file", "flag"

class ConfigSchema {
 public:
  // The current value of a key.
  struct Value {
    std::string key;        // with its section: "train.steps"
    std::string text;       // as TOML; KeyOptions::unset (a text) if the value is nullopt
    ConfigSource source;    // where the value comes from
    bool per_rank = false;  // KeyOptions::per_rank
  };

  // Declares a key. key: section and name with one dot between them, "train.steps". target:
  // receives the value. help: the help text. Throws InternalError if `key` does not have one dot,
  // if the key is declared twice, or if the default breaks `options`.
  template <class T>
  void add(std::string key, T* target, std::string help, KeyOptions options = {});

  // Accepts any key in this section. If the key was not added, its value is stored in *target,
  // without checks: the value of "model.n_layer" becomes the member "n_layer" of the object
  // *target. If *target is not an object, it becomes an empty object. If `places` is not null,
  // *places maps each such key that was set, "n_layer", to the beginning of an error message about
  // its value: "run.toml:3: model.n_layer = 0", or "--model.n_layer=0" for a flag. help() lists the
  // section with the text `help`.
  void open_section(std::string section, nlohmann::json* target, std::string help,
                    std::map<std::string, std::string>* places = nullptr);

  // Reads a TOML file. If two files set the same key, the file read later wins. A flag overrides
  // every file, whether the flag was set before or after the file was read. Throws ConfigError,
  // also if the file cannot be read.
  void read_file(const std::filesystem::path& path);
  // Sets a key as a flag does. text: what follows the = of a flag: a number, a word without quotes,
  // a list as "a,b" or as TOML, and so on. If a key is set several times, the last call wins.
  void set(const std::string& key, std::string_view text);
  // Sets a key. argument: a whole flag, "--train.steps=100".
  void set_flag(std::string_view argument);

  // The help of one key.
  struct KeyHelp {
    std::string key;            // "train.steps"
    std::string default_value;  // as TOML; "" if the default is nullopt
    // KeyOptions::unset if the type of the key is std::optional, else "". It says what nullopt
    // means ("the model's positions"). It is set even if the default is not nullopt.
    std::string computed_default;
    std::string values;     // "a whole number of steps from 1"
    bool per_rank = false;  // KeyOptions::per_rank
    std::string text;       // what the key means
  };
  // Returns the help of all keys, by section, in the order of declaration.
  std::vector<KeyHelp> key_helps() const;
  // The names of the sections, in the order of declaration.
  const std::vector<std::string>& sections() const { return sections_; }
  // Returns the help text of an open section, which says which keys it accepts besides the declared
  // keys. Returns "" for other sections.
  std::string open_section_help(const std::string& section) const;

  // Returns the help of all keys as text, at most 100 columns wide.
  std::string help() const;
  // Returns the current values as nested objects: {"train": {"steps": 100}}. nullopt becomes
  // null. The object of an open section has all keys of its target, and the declared keys.
  nlohmann::json to_json() const;
  // Returns the current values as a list, by section, in the order of declaration. The keys that
  // were set in an open section follow the section's declared keys.
  std::vector<Value> values() const;

 private:
  struct Key {
    std::string name;
    std::string help;
    KeyOptions options;
    TypeDescription type;
    // The functions of ConfigType<T>, for the type T of the key and its target.
    std::function<nlohmann::json(std::string_view)> parse;
    std::function<void(const nlohmann::json&)> assign;
    std::function<nlohmann::json()> show;
    nlohmann::json default_value;
    ConfigSource source = ConfigSource::by_default;
  };
  struct OpenSection {
    nlohmann::json* target;
    std::string help;
    std::map<std::string, std::string>* places;   // by key without the section; may be null
    std::map<std::string, ConfigSource> sources;  // of the keys that were set; without the section
  };

  void add_key(Key key);
  Key* find(const std::string& name);
  OpenSection* find_open_section(const std::string& key);
  bool has_section(const std::string& name) const;
  std::string nearest_key(const std::string& name) const;

  // place: "run.toml:12"; empty for a flag. assign() throws ConfigError for a wrong value;
  // assign_open() accepts any value.
  void assign(Key& key, const nlohmann::json& value, ConfigSource source, const std::string& place);
  void assign_open(const std::string& key, const nlohmann::json& value, ConfigSource source,
                   const std::string& place);
  // Throws ConfigError for a key that no section accepts.
  [[noreturn]] void refuse_key(const std::string& key, const nlohmann::json& value,
                               const std::string& place) const;

  // Describes the valid values of a key, for messages.
  std::string describe_expected(const Key& key) const;
  // Returns a value as TOML; KeyOptions::unset for null.
  std::string display(const Key& key, const nlohmann::json& value) const;
  KeyHelp help_of(const Key& key) const;

  std::vector<Key> keys_;
  std::vector<std::string> sections_;  // in the order of declaration
  std::map<std::string, OpenSection> open_sections_;
};

template <class T>
void ConfigSchema::add(std::string key, T* target, std::string help, KeyOptions options) {
  using Type = ConfigType<T>;
  add_key({.name = std::move(key),
           .help = std::move(help),
           .options = options,
           .type = Type::describe(options),
           .parse = [options](std::string_view flag) { return Type::parse(flag, options); },
           .assign = [target, options](
                         const nlohmann::json& value) { *target = Type::read(value, options); },
           .show = [target] { return Type::show(*target); },
           .default_value = Type::show(*target)});
}

}  // namespace colossal
