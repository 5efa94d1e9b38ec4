// The parts of which a vocabulary head's layer is made, dense or sharded.
#pragma once

#include <cstdint>

#include "colossal/nn/parameter.h"
#include "colossal/nn/token_table.h"
#include "colossal/ops/linear_cross_entropy.h"

namespace colossal::nn {

struct VocabularyHeadParts {
  TokenTable table;
  ParameterHandle bias;  // empty: none
  Range rows;            // of the vocabulary, to which the bias here belongs
  double logit_scale = 1;
  double soft_cap = 0;

  // The bias stays here until the scope ends. Scale and soft cap are both divided by `temperature`,
  // which divides the capped logits by it.
  ops::LogitOptions logit_options(LayerScope& scope, double temperature = 1) const {
    return {bias ? bias.use(scope) : at::Tensor(), logit_scale / temperature,
            soft_cap / temperature};
  }
};

}  // namespace colossal::nn
