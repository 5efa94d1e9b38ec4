#include "colossal/cli/access_arguments.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "colossal/base/error.h"

namespace colossal::cli {
namespace {

std::string read_key_file(const std::string& flag, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw IoError(fmt::format("--{}={}: cannot read the file", flag, path));
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

// source: where the key comes from, for the message, which must not show the key.
std::string checked_key(const std::string& key, const std::string& source) {
  if (key.empty()) {
    throw ConfigError(
        fmt::format("{}: the key is empty, so anybody could use the server; give a key, or leave "
                    "this out to need none",
                    source));
  }
  const bool fits =
      std::ranges::all_of(key, [](char letter) { return letter > ' ' && letter < 127; });
  if (!fits) {
    throw ConfigError(fmt::format(
        "{}: the key has spaces or characters that are not ASCII, which a header cannot have",
        source));
  }
  return key;
}

// Returns the key; "" if none is given. flag: such as "api-key".
std::string resolve_key(const std::string& flag, const char* variable,
                        const std::optional<std::string>& key,
                        const std::optional<std::string>& file) {
  if (key && file) {
    throw ConfigError(fmt::format("--{0} and --{0}-file: give one of them", flag));
  }
  if (key) return checked_key(*key, "--" + flag);
  const std::string file_flag = flag + "-file";
  if (file) return checked_key(read_key_file(file_flag, *file), "--" + file_flag + "=" + *file);
  const char* const set = std::getenv(variable);
  return set ? checked_key(set, fmt::format("the environment variable {}", variable)) : "";
}

}  // namespace

void add_access_options(CLI::App& command, AccessArguments& arguments) {
  const auto add_key = [&](const char* flag, std::optional<std::string>& value, const char* file,
                           std::optional<std::string>& path, const std::string& help) {
    command.add_option(flag, value, help + "; all users of the machine can see it here");
    command.add_option(file, path, help + ", in a file")->type_name("FILE");
  };
  add_key(
      "--api-key", arguments.key, "--api-key-file", arguments.key_file,
      "The key that clients must send as \"Authorization: Bearer KEY\" [$COLOSSAL_API_KEY; none: "
      "no key needed]");
  add_key("--admin-key", arguments.admin_key, "--admin-key-file", arguments.admin_key_file,
          "The key for loading and unloading adapters [$COLOSSAL_ADMIN_KEY; none: the API key]");
  command
      .add_option("--allowed-host", arguments.allowed_hosts,
                  "A further name of this server in requests, beside localhost. May be given "
                  "several times")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command
      .add_option("--allowed-origin", arguments.allowed_origins,
                  "A site whose pages may use the server, such as https://chat.example; *: all "
                  "sites. May be given several times")
      ->type_name("ORIGIN")
      ->allow_extra_args(false);
}

server::AccessOptions resolve_access(const AccessArguments& arguments) {
  server::AccessOptions access{
      .key = resolve_key("api-key", "COLOSSAL_API_KEY", arguments.key, arguments.key_file),
      .admin_key = resolve_key("admin-key", "COLOSSAL_ADMIN_KEY", arguments.admin_key,
                               arguments.admin_key_file)};
  for (const std::string& host : arguments.allowed_hosts) {
    const bool has_port = host.find(':') != host.npos && !host.ends_with(']');
    if (host.empty() || has_port || host.find('/') != host.npos) {
      throw ConfigError(fmt::format(
          "--allowed-host={}: must be a name without a port, such as chat.example", host));
    }
    access.allowed_hosts.push_back(server::lower_case(host));
  }
  for (const std::string& origin : arguments.allowed_origins) {
    const size_t scheme = origin.find("://");
    const bool is_site = scheme != origin.npos && scheme > 0 && scheme + 3 < origin.size() &&
                         origin.find('/', scheme + 3) == origin.npos;
    if (origin != "*" && !is_site) {
      throw ConfigError(
          fmt::format("--allowed-origin={}: must be a scheme and a host without a path, such as "
                      "https://chat.example or http://localhost:3000, or *",
                      origin));
    }
    access.allowed_origins.push_back(server::lower_case(origin));
  }
  return access;
}

}  // namespace colossal::cli
