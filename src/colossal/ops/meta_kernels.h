// Meta kernels (shape inference) that LibTorch 2.13 lacks for its own operators.
#pragma once

namespace colossal::ops {

// Registers meta kernels for layer norm and its backward, index_select and embedding's backward,
// where, abs.out, native dropout, log-sigmoid, flip, roll and fused AdamW. Call before a dry run;
// later calls do nothing. Modifies LibTorch's process-wide dispatch table and holds no other state.
void register_meta_kernels();

}  // namespace colossal::ops
