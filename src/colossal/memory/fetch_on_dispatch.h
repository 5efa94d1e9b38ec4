// FetchOnDispatch: fetches sharded or offloaded weights for a user's own torch module, which does
// not say when it uses a weight. Intercepts every operator at LibTorch's dispatcher, and fetches
// the weights among the operator's arguments.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "colossal/memory/chunk_engine.h"

namespace colossal::memory {

// While this exists, each operator that this thread calls finds the weights among its arguments
// whole on the device, and keeps them there until it returns. Code that reads a weight's memory
// without an operator is not detected. Construct this around the module's forward pass. At most one
// instance per thread. `chunks` must outlive this.
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
