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

  // Throw ConfigError naming the variable when it is set to what is no whole number in
  // [low, high]; number() also when it is not set.
  int number(const char* name, int low, int high) const;
  int number_or(const char* name, int low, int high, int otherwise) const;

  // `rank` and `size` as a pair: rank < size, else ConfigError naming both.
  void read_rank(const char* rank_name, const char* size_name, int* rank, int* size) const;

 private:
  const EnvironmentReader& reader_;
};

}  // namespace colossal::cluster
