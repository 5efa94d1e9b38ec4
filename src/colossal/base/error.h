// The kinds of failure, and their exit codes.
//
//   ConfigError     the user's mistake: names the key, the value found and what would work; exit 2
//   IoError         a file or directory failed: names the path and the reason; exit 1
//   CommError       a rank died, hung or disagreed: names rank, axis and operation; exit 3
//   InternalError   a broken invariant of ours, raised by COLOSSAL_CHECK with both values; exit 1
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace colossal {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ConfigError : public Error {
 public:
  using Error::Error;
};

class IoError : public Error {
 public:
  using Error::Error;
};

class CommError : public Error {
 public:
  using Error::Error;
};

class InternalError : public Error {
 public:
  using Error::Error;
};

[[noreturn]] void raise_internal_error(const char* file, int line, const char* condition,
                                       const std::string& message);

}  // namespace colossal

// Checks an invariant that no input can break. Prints the condition, the place, and the values
// given as a format string with arguments: COLOSSAL_CHECK(a == b, "a {} b {}", a, b).
#define COLOSSAL_CHECK(condition, ...)                                                            \
  do {                                                                                            \
    if (!(condition))                                                                             \
      ::colossal::raise_internal_error(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (false)
