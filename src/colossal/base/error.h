// The exceptions of Colossal, and the exit code of a command that ends with each.
//
//   ConfigError     user error. Names the key, the value found and what would work; exit code 2
//   IoError         a file or directory failed. Names the path and the reason; exit code 1
//   CommError       a rank died, hung or disagreed. Names rank, axis and operation; exit code 3
//   InternalError   an invariant of Colossal does not hold. Thrown by COLOSSAL_CHECK; exit code 1
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

// Throws InternalError if `condition` is false. Only for invariants that no input can break. The
// message has the condition, file and line, and the text of a format string with arguments:
// COLOSSAL_CHECK(a == b, "a {} b {}", a, b).
#define COLOSSAL_CHECK(condition, ...)                                                            \
  do {                                                                                            \
    if (!(condition))                                                                             \
      ::colossal::raise_internal_error(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (false)
