#include "colossal/memory/tier_config.h"

#include <algorithm>

#include "colossal/base/error.h"

namespace colossal::memory {

void add_offload_key(ConfigSchema& schema, const std::string& kind, Offload* target,
                     const std::string& what, bool or_auto) {
  std::string doc = fmt::format(
      "Where {} are stored between uses: on the device (none), on the host or on NVMe; or a "
      "fraction on each, such as {{host = 0.5, nvme = 0.25}}. Offloading takes less device memory, "
      "but moving the data takes time.",
      what);
  std::vector<std::string> choices{"none", "host", "nvme"};
  if (or_auto) {
    doc += " auto: offloads no more than the budgets require.";
    choices.emplace_back("auto");
  }
  schema.add("memory.offload_" + kind, target, doc,
             {.minimum = 0, .maximum = 1, .choices = choices});
}

void add_nvme_path_key(ConfigSchema& schema, std::string* target) {
  schema.add(
      "memory.nvme_path", target,
      "A folder on a fast local disk, for the file in which memory.offload_* stores data on NVMe.",
      {.per_rank = true});
}

void add_table_rows_key(ConfigSchema& schema, int64_t* target) {
  schema.add(
      "memory.table_rows", target,
      "Compute with the tables of the embedding and of the output head in blocks of at most this "
      "many rows. Takes less memory, and one more product with the table per step. 0: no blocks.",
      {.unit = "rows", .minimum = 0, .maximum = 1 << 24});
}

TierShares resolve_shares(const std::string& kind, const Offload& offload) {
  if (const auto* tier = std::get_if<std::string>(&offload)) {
    return {.host = *tier == "host" ? 1.0 : 0, .nvme = *tier == "nvme" ? 1.0 : 0};
  }
  TierShares shares;
  for (const auto& [tier, share] : std::get<std::map<std::string, double>>(offload)) {
    if (tier != "host" && tier != "nvme") {
      throw ConfigError(
          fmt::format("memory.offload_{}: unknown tier \"{}\"; use host and nvme, as in {{host = "
                      "0.5, nvme = 0.25}}",
                      kind, tier));
    }
    (tier == "host" ? shares.host : shares.nvme) = share;
  }
  if (shares.host + shares.nvme > 1) {
    throw ConfigError(
        fmt::format("memory.offload_{} = {{host = {}, nvme = {}}}: the fractions must sum to 1 or "
                    "less, such as host = {:.4g}",
                    kind, shares.host, shares.nvme, std::max(0.0, 1 - shares.nvme)));
  }
  return shares;
}

void require_nvme_path(const Tiers& tiers) {
  if (!tiers.uses(Tier::nvme) || !tiers.nvme_path.empty()) return;
  throw ConfigError(
      "memory.offload_* = \"nvme\" needs a folder for its file: set memory.nvme_path, or use "
      "\"host\"");
}

}  // namespace colossal::memory
