// Meta kernels that LibTorch 2.13 lacks for some of its own operators. A meta kernel allocates the
// results of an operator without computing them; dry runs need one for each operator.
#pragma once

namespace colossal::ops {

// Registers meta kernels with LibTorch's process-wide dispatcher, for these operators:
// native_layer_norm, native_dropout and log_sigmoid, each with its backward; index_select,
// embedding_dense_backward, where, abs.out, flip, roll and _fused_adamw_. Call it before a dry run.
// Further calls do nothing. Thread-safe.
void register_meta_kernels();

}  // namespace colossal::ops
