// find_operator(), through which Colossal calls its own dispatcher operators.
//
// Colossal registers its operators with LibTorch's dispatcher, in the library "colossal". Each
// device can thus have its own implementation, and a dry run sees Colossal's and LibTorch's
// operators in one list. The source file of an operator declares it in a TORCH_LIBRARY_FRAGMENT.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace colossal::ops {

// Returns a handle to the operator `name`, such as "colossal::dropout"; its call() runs the
// operator. Function: the operator's C++ signature, such as void(const at::Tensor&, double). The
// look-up takes time, so callers keep the handle in a static variable. Throws c10::Error if there
// is no such operator or if the signature differs.
template <typename Function>
c10::TypedOperatorHandle<Function> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

}  // namespace colossal::ops
