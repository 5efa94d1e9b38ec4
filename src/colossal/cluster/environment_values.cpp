#include "colossal/cluster/environment_values.h"

#include <charconv>

#include "colossal/base/error.h"

namespace colossal::cluster {
namespace {

constexpr int kMaxRanks = 1 << 24;

}  // namespace

std::string EnvironmentValues::text(const char* name) const {
  const char* value = reader_(name);
  return value == nullptr ? "" : value;
}

std::string EnvironmentValues::first_text(std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    if (has(name)) return text(name);
  }
  return "";
}

std::string EnvironmentValues::required_text(const char* name) const {
  if (has(name)) return text(name);
  throw ConfigError(fmt::format(
      "environment variable {} is not set, though others of the same launcher are", name));
}

int EnvironmentValues::number(const char* name, int low, int high) const {
  const std::string value = required_text(name);
  int number = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stop != end || number < low || number > high) {
    throw ConfigError(
        fmt::format("environment variable {} is '{}'; expected a whole number from {} to {}", name,
                    value, low, high));
  }
  return number;
}

int EnvironmentValues::number_or(const char* name, int low, int high, int otherwise) const {
  return has(name) ? number(name, low, high) : otherwise;
}

void EnvironmentValues::read_rank(const char* rank_name, const char* size_name, int* rank,
                                  int* size) const {
  *size = number(size_name, 1, kMaxRanks);
  *rank = number(rank_name, 0, kMaxRanks);
  if (*rank >= *size) {
    throw ConfigError(
        fmt::format("environment variable {} is {}, but {} is {}; ranks count from 0 to {}",
                    rank_name, *rank, size_name, *size, *size - 1));
  }
}

}  // namespace colossal::cluster
