#define COLOSSAL_VARIANT baseline_product
#include "colossal/ops/kernels/product.inc"
