// Reads numbers and strings from environment variables and checks them, for
// read_launch_environment() (launch_environment.h).
#pragma once

#include <initializer_list>
#include <string>

#include "colossal/cluster/launch_environment.h"

namespace colossal::cluster {

class EnvironmentValues {
 public:
  // reader: returns the value of a variable, null if it is not set; must outlive this object.
  explicit EnvironmentValues(const EnvironmentReader& reader) : reader_(reader) {}

  // Whether the variable is set and not empty.
  bool has(const char* name) const { return !text(name).empty(); }
  // Returns the value of the variable; empty if it is not set.
  std::string text(const char* name) const;
  // Returns the value of the first of these variables that is set and not empty; empty if none is.
  std::string first_text(std::initializer_list<const char*> names) const;
  // Returns the value of the variable. Throws ConfigError if it is not set or empty.
  std::string required_text(const char* name) const;

  // Returns the value of the variable as an integer. Throws ConfigError with the variable's name if
  // it is not set, empty, or not an integer in [low, high].
  int number(const char* name, int low, int high) const;
  // Like number(), but returns `otherwise` if the variable is not set or empty.
  int number_or(const char* name, int low, int high, int otherwise) const;

  // Reads the variable `rank_name` into *rank and the variable `size_name` into *size, which must
  // not be null. Throws ConfigError if one of the variables is not set or not an integer, or unless
  // 0 <= *rank < *size.
  void read_rank(const char* rank_name, const char* size_name, int* rank, int* size) const;

 private:
  const EnvironmentReader& reader_;
};

}  // namespace colossal::cluster
