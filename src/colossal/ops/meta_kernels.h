// Meta kernels (shape inference) that LibTorch 2.13 lacks for its own operators.
#pragma once

namespace colossal::ops {

// Registers meta kernels for these operators of LibTorch, in its process-wide dispatch table:
// native_layer_norm and its backward, index_select, embedding_dense_backward, where, abs.out,
// native_dropout and log_sigmoid with their backward, flip, roll and _fused_adamw_. Must be called
// before a dry run. Further calls do nothing. Thread-safe.
void register_meta_kernels();

}  // namespace colossal::ops
