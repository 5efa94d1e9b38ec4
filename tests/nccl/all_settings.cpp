#include <algorithm>

#include "colossal/comm/gpus.h"
#include "tests/comm/settings.h"

namespace colossal::comm {

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  for (const int ranks : {1, 2, 3, 4, 8}) {
    if (ranks <= std::max(1, num_gpus())) settings.push_back({"nccl", ranks});
  }
  return settings;
}

}  // namespace colossal::comm
