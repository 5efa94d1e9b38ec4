// The common exceptions of Colossal, and the macro COLOSSAL_CHECK. A command that ends with an
// exception has the exit code given here:
//
//   ConfigError     2   The user's settings or input files are wrong. The message has the key or
//                       file, the value found, and what would work.
//   IoError         1   A file or folder could not be read or written. The message has the path and
//                       the reason.
//   CommError       3   A rank died, hung, or did not agree with the others. The message has the
//                       rank, the axis of the group, and the operation.
//   InternalError   1   An invariant of Colossal does not hold, which is a bug. Thrown by
//                       COLOSSAL_CHECK.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace colossal {

// The base class of the exceptions above. Any other failure throws an Error itself, or a class that
// another header derives from Error, such as NonFiniteError (engine/non_finite_error.h); exit
// code 1.
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

// Throws the InternalError of a COLOSSAL_CHECK whose condition is false.
[[noreturn]] void raise_internal_error(const char* file, int line, const char* condition,
                                       const std::string& message);

}  // namespace colossal

// Throws InternalError if `condition` is false. Use this only for invariants that no input can
// break. The message has the condition, file and line, and the text of a format string
// (fmt::format) with its arguments: COLOSSAL_CHECK(a == b, "a {} b {}", a, b).
#define COLOSSAL_CHECK(condition, ...)                                                            \
  do {                                                                                            \
    if (!(condition))                                                                             \
      ::colossal::raise_internal_error(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (false)
