// The keys of a configuration, each declared once: for the TOML file, the flags, the defaults and
// the documentation.
//
//   TrainConfig config;
//   ConfigSchema schema;
//   schema.add("train.steps", &config.steps, "optimizer updates in all, resumed ones included",
//              {.unit = "steps", .minimum = 1});
//   schema.add("parallel.backend", &config.backend, "what carries collectives",
//              {.choices = {"auto", "gloo", "nccl"}});
//   schema.open_section("model", &overrides, "any field of config.json");
//   schema.read_file("run.toml");
//   schema.set_flag("--train.steps=100");
//
// The value that a target holds when it is added is its key's default. Targets are written at once,
// and must outlive the schema. config_value.h lists the types that a key can have.
//
// What a user gives wrong is a ConfigError that says where (file and line, or flag), what was found
// and what would work: an unknown key names the nearest one.
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

// Where a value comes from; a later one in this list wins over an earlier one.
enum class ConfigSource { by_default, file, flag };
const char* config_source_name(ConfigSource source);  // "default", "file", "flag"

class ConfigSchema {
 public:
  struct Value {
    std::string key;
    std::string text;  // as TOML
    ConfigSource source;
    bool per_rank = false;
  };

  // key: "section.name".
  template <class T>
  void add(std::string key, T* target, std::string help, KeyOptions options = {});

  // Keys of this section that were not added are stored in *target, an object, as they are. *places
  // gets how an error about each begins: "run.toml:3: model.n_layer = 0". The section is listed in
  // help() under `help`.
  void open_section(std::string section, nlohmann::json* target, std::string help,
                    std::map<std::string, std::string>* places = nullptr);

  // Where two files give a key, the later file wins. A flag wins over every file, set before or
  // after.
  void read_file(const std::filesystem::path& path);
  // text: as in --key=text: a number, a word without quotes, a list as "a,b" or as TOML, ... Of two
  // for the same key the last counts.
  void set(const std::string& key, std::string_view text);
  // "--train.steps=100".
  void set_flag(std::string_view argument);

  // The help of one key.
  struct KeyHelp {
    std::string key;            // "train.steps"
    std::string default_value;  // as TOML; "" where the program finds one
    std::string left_out;       // what it then finds: "the model's positions"; else ""
    std::string values;         // "a whole number of steps from 1"
    bool per_rank = false;
    std::string text;
  };
  // Returns all keys, section by section, in the order of declaration.
  std::vector<KeyHelp> key_helps() const;
  const std::vector<std::string>& sections() const { return sections_; }
  // Returns what an open section takes besides its keys; "" for other sections.
  std::string open_section_help(const std::string& section) const;

  // Returns the help of all keys as text of 100 columns.
  std::string help() const;
  // The values in force, by section; what was left to the program is null.
  nlohmann::json to_json() const;
  // The same, key by key in the order of declaration.
  std::vector<Value> values() const;

 private:
  struct Key {
    std::string name;
    std::string help;
    KeyOptions options;
    TypeDescription type;
    std::function<nlohmann::json(std::string_view)> parse;
    std::function<void(const nlohmann::json&)> assign;
    std::function<nlohmann::json()> show;
    nlohmann::json default_value;
    ConfigSource source = ConfigSource::by_default;
  };
  struct OpenSection {
    nlohmann::json* target;
    std::string help;
    std::map<std::string, std::string>* places;   // by name; may be null
    std::map<std::string, ConfigSource> sources;  // of the keys given, without the section
  };

  void add_key(Key key);
  Key* find(const std::string& name);
  OpenSection* find_open_section(const std::string& key);
  bool has_section(const std::string& name) const;
  std::string nearest_key(const std::string& name) const;

  // place: "run.toml:12" or "flag"; both assign or throw.
  void assign(Key& key, const nlohmann::json& value, ConfigSource source, const std::string& place);
  void assign_open(const std::string& key, const nlohmann::json& value, ConfigSource source,
                   const std::string& place);
  [[noreturn]] void refuse_key(const std::string& key, const nlohmann::json& value,
                               const std::string& place) const;

  std::string describe_expected(const Key& key) const;
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
