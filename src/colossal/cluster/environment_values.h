// Reads and checks numbers and strings in environment variables.
#pragma once

#include <initializer_list>
#include <string>

#include "colossal/cluster/launch_environment.h"

namespace colossal::cluster {

class EnvironmentValues {
 public:
  explicit EnvironmentValues(const EnvironmentReader& reader) : reader_(reader) {}

  // Whether the variable is set and not empty.
  bool has(const char* name) const { return !text(name).empty(); }
  std::string text(const char* name) const;  // "" if it is not set
  // Returns the value of the first of these variables that is set and not empty, else "".
  std::string first_text(std::initializer_list<const char*> names) const;
  std::string required_text(const char* name) const;  // throws ConfigError unless has(name)

  // Return the value as an integer. Throw ConfigError, naming the variable, if the value is not an
  // integer in [low, high]. If the variable is not set or empty, number() throws ConfigError too,
  // but number_or() returns `otherwise`.
  int number(const char* name, int low, int high) const;
  int number_or(const char* name, int low, int high, int otherwise) const;

  // Reads two variables into *rank and *size. Throws ConfigError, naming both, unless 0 <= *rank <
  // *size.
  void read_rank(const char* rank_name, const char* size_name, int* rank, int* size) const;

 private:
  const EnvironmentReader& reader_;
};

}  // namespace colossal::cluster
