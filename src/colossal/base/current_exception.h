// The message of the exception that is being handled, whatever its type.
#pragma once

#include <string>

namespace colossal {

// Call in a `catch (...)` block. Returns what() of an exception that derives from std::exception;
// for other types, a text that says that the type is unknown.
std::string message_of_current_exception();

}  // namespace colossal
