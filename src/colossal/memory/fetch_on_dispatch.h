// Fetches weights for modules that do not use parameter handles. LibTorch's dispatcher shows which
// operator receives which tensors.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "colossal/memory/chunk_engine.h"

namespace colossal::memory {

// While this exists, the transient weights among the arguments of each operator that this thread
// calls are whole on the device until the operator returns. Code that reads a weight's memory
// without an operator is not detected. At most one instance per thread. `chunks` must outlive this.
class FetchOnDispatch {
 public:
  explicit FetchOnDispatch(ChunkEngine& chunks);
  ~FetchOnDispatch();
  FetchOnDispatch(const FetchOnDispatch&) = delete;
  FetchOnDispatch& operator=(const FetchOnDispatch&) = delete;

 private:
  c10::impl::IncludeDispatchKeyGuard operators_;
};

}  // namespace colossal::memory
