// Colossal's operators are registered with LibTorch's dispatcher, in the library "colossal". So a
// dry run records them in one list with LibTorch's operators, and each device has its own
// implementation. A source file that implements an operator declares it in a TORCH_LIBRARY_FRAGMENT
// and calls it through find_operator().
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace colossal::ops {

template <typename Function>
c10::TypedOperatorHandle<Function> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

}  // namespace colossal::ops
