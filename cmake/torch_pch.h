// For the folders that see LibTorch. autograd/custom_function.h is left out: its few users pay for
// it themselves, where here every file would, two seconds each.
#pragma once
#include <ATen/ATen.h>

#include "standard_pch.h"
