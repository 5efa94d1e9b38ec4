// FetchOnDispatch: fetches sharded or offloaded weights for a user's own torch module, which does
// not say when it uses a weight. Intercepts every operator at LibTorch's dispatcher, and fetches
// the weights among the operator's arguments.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "colossal/memory/chunk_engine.h"

namespace colossal::memory {

// While this exists, each operator that this thread calls finds the weights among its arguments
// whole on the device, where they stay at least until it returns. A view of a weight counts as the
// weight. The ranks over which weights are sharded need not use the same weights (ChunkFetcher).
// Code that reads a weight's memory without an operator is not detected. Construct this around the
// module's forward pass only: in the backward pass, memory::Activations fetches the weights that
// autograd saved. At most one instance per thread. `chunks` must outlive this.
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
