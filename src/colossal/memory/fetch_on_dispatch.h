// Weights for modules that read them without handles: LibTorch's dispatcher tells which operator
// receives which tensors.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "colossal/memory/chunk_engine.h"

namespace colossal::memory {

// While one lives, the weights that an operator of this thread receives are here until it returns.
// Reading a weight's memory by other means than an operator is not seen. One at a time a thread.
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
