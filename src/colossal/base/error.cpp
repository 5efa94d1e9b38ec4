#include "colossal/base/error.h"

namespace colossal {

void raise_internal_error(const char* file, int line, const char* condition,
                          const std::string& message) {
  throw InternalError(
      fmt::format("{}:{}: broken invariant `{}`: {}", file, line, condition, message));
}

}  // namespace colossal
