// Weights for modules that read them without handles: LibTorch's dispatcher tells which operator
// receives which tensors.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "colossal/memory/chunk_engine.h"

namespace colossal::memory {

// While one lives, each operator that this thread calls has the weights that it receives here until
// it returns. Reading a weight's memory by other means than an operator is not seen. One at a time
// a thread.
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
