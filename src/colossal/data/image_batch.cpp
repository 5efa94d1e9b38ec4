#include "colossal/data/image_batch.h"

namespace colossal::data {

BatchSpecification image_specification(int64_t channels, int64_t height, int64_t width) {
  return {.fields = {{.name = kPixels, .type = at::kFloat, .shape = {channels, height, width}}},
          .units_of_sample = 1};
}

}  // namespace colossal::data
