// Numbers and texts from environment variables, checked.
#pragma once

#include <initializer_list>
#include <string>

#include "colossal/cluster/launch_environment.h"

namespace colossal::cluster {

class EnvironmentValues {
 public:
  explicit EnvironmentValues(const EnvironmentReader& reader) : reader_(reader) {}

  // Whether it is set and not empty.
  bool has(const char* name) const { return !text(name).empty(); }
  std::string text(const char* name) const;  // "" when it is not set
  std::string first_text(std::initializer_list<const char*> names) const;
  std::string required_text(const char* name) const;  // throws ConfigError when it is not set

  // Return a whole number. Throw ConfigError, naming the variable, for a value that is not one in
  // [low, high]; number() also if it is not set.
  int number(const char* name, int low, int high) const;
  int number_or(const char* name, int low, int high, int otherwise) const;

  // Reads `rank` and `size`. Throws ConfigError naming both unless rank < size.
  void read_rank(const char* rank_name, const char* size_name, int* rank, int* size) const;

 private:
  const EnvironmentReader& reader_;
};

}  // namespace colossal::cluster
