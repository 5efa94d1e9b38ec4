#include "colossal/cli/key_flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <sstream>

#include "colossal/base/error.h"
#include "colossal/base/nearest.h"

namespace colossal::cli {
namespace {

// "--Max_Tokens" becomes "max-tokens".
std::string plain_name(const std::string& option) {
  std::string name = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  for (char& c : name) c = c == '_' ? '-' : static_cast<char>(std::tolower(c));
  return name;
}

std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words;
  std::istringstream text(name);
  for (std::string word; std::getline(text, word, '-');) words.push_back(word);
  return words;
}

// Whether the words of `few` occur in `many` in their order.
bool occur_in(const std::vector<std::string>& few, const std::vector<std::string>& many) {
  auto next = few.begin();
  for (const std::string& word : many) {
    if (next != few.end() && *next == word) ++next;
  }
  return next == few.end();
}

// Returns how unlike two names are: 0 for equal ones, 1 if one is an abbreviation of the other,
// such as max-tokens of max-new-tokens or temp of temperature, else at least the number of edits.
size_t unlikeness(const std::string& given, const std::string& known) {
  if (given == known) return 0;
  constexpr size_t kShortest = 3;
  const auto a = words_of(given), b = words_of(known);
  const bool begins = given.size() >= kShortest && known.starts_with(given);
  if (begins || occur_in(a, b) || (b.size() > 1 && occur_in(b, a))) return 1;
  return edit_distance(given, known);
}

// Returns the option or key whose name is the least unlike, as the user writes it.
std::optional<std::string> nearest_flag(const std::string& given, const CLI::App& command,
                                        const ConfigSchema& keys) {
  std::optional<std::string> best;
  size_t smallest = given.size() / 2 + 1;  // what is less like it is no help
  const auto consider = [&](const std::string& flag, size_t distance) {
    if (distance >= smallest) return;
    best = flag;
    smallest = distance;
  };
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      consider("--" + name, unlikeness(given, plain_name(name)));
    }
  }
  for (const ConfigSchema::KeyHelp& key : keys.key_helps()) {
    const std::string name = plain_name(key.key.substr(key.key.find('.') + 1));
    consider("--" + key.key + "=VALUE", unlikeness(given, name) + 1);
  }
  return best;
}

}  // namespace

std::vector<std::string> key_flags(const CLI::App& command, const ConfigSchema& keys) {
  std::vector<std::string> flags = command.remaining();
  for (const std::string& flag : flags) {
    const std::string given = flag.substr(0, flag.find('='));
    if (!given.starts_with('-') || given.find('.') != std::string::npos) continue;
    const auto nearest = nearest_flag(plain_name(given), command, keys);
    throw ConfigError(fmt::format("{}: colossal {} has no such option; {}", given,
                                  command.get_name(),
                                  nearest ? "nearest: " + *nearest : "--help lists its options"));
  }
  return flags;
}

void refuse_unknown_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  const bool is_method = !app.get_name().empty() && app.get_parent() != nullptr;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  if (names.empty()) return;
  const std::string given = arguments.empty() ? "" : arguments[0];
  if (given.starts_with('-')) return;
  if (std::ranges::find(names, given) != names.end()) {
    return refuse_unknown_command(*app.get_subcommand(given),
                                  {arguments.begin() + 1, arguments.end()});
  }
  if (!is_method && given.empty()) return;  // CLI11 shows the help
  throw ConfigError(fmt::format(
      "{}{}; the {} are {}", is_method ? "colossal " + app.get_name() + ": " : "",
      given.empty() ? "give a method"
                    : fmt::format("{}: no such {}; nearest: {}", given,
                                  is_method ? "method" : "command", nearest(given, names)),
      is_method ? "methods" : "commands", fmt::join(names, ", ")));
}

}  // namespace colossal::cli
