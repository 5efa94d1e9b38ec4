#include "colossal/base/current_exception.h"

#include <exception>

namespace colossal {

std::string message_of_current_exception() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

}  // namespace colossal
