#define COLOSSAL_VARIANT avx2_product
#include "colossal/ops/kernels/product.inc"
