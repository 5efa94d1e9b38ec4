// Shape rules that LibTorch 2.13 lacks for its own operators on meta tensors.
#pragma once

namespace colossal::ops {

// Registers them: layer norm and its backward, index_select and embedding's backward, where, abs
// into a given tensor, native dropout, log-sigmoid, flip, roll, fused AdamW. Dry runs need it; the
// second and later calls do nothing. It adds to LibTorch's process-wide table and holds no state.
void register_meta_kernels();

}  // namespace colossal::ops
