// Colossal's operators are registered with LibTorch's dispatcher, in the library "colossal". So
// each device can have its own implementation, and a dry run records them in the same list as
// LibTorch's operators. A source file that implements an operator declares it in a
// TORCH_LIBRARY_FRAGMENT and calls it through find_operator().
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace colossal::ops {

// Returns the operator `name`, such as "colossal::dropout". Function: its C++ signature. Throws
// c10::Error if there is no such operator or the signature differs.
template <typename Function>
c10::TypedOperatorHandle<Function> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

}  // namespace colossal::ops
