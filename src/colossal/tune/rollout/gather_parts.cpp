#include "colossal/tune/rollout/gather_parts.h"

#include <cstdint>
#include <string>

namespace colossal::tune {

std::vector<nlohmann::json> gather_parts(const nlohmann::json& mine, bool has_some,
                                         const ParallelContext& context) {
  std::string bytes;
  if (has_some) {
    const std::vector<uint8_t> packed = nlohmann::json::to_cbor(mine);
    bytes.assign(packed.begin(), packed.end());
  }
  std::vector<nlohmann::json> all;
  for (const std::string& part :
       comm::gather_bytes(bytes, context.world_group(), comm::Reason::data)) {
    if (!part.empty()) all.push_back(nlohmann::json::from_cbor(part));
  }
  return all;
}

bool has_results(const ParallelContext& context) {
  return context.coordinate(Axis::tp) == 0 &&
         context.holds_stage(context.strategy().num_stages() - 1);
}

}  // namespace colossal::tune
