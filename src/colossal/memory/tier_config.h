// The keys of [memory] that training and generation share: memory.offload_*, memory.nvme_path and
// memory.table_rows.
#pragma once

#include <map>
#include <string>
#include <variant>

#include "colossal/base/config_schema.h"
#include "colossal/memory/tiers.h"

namespace colossal::memory {

// The name of a tier, "auto", or the share of bytes in each tier: {host = 0.5, nvme = 0.25}.
using Offload = std::variant<std::map<std::string, double>, std::string>;

// kind: "parameters" for the key memory.offload_parameters. what: the tensors that are offloaded,
// for the help. or_auto: "auto" is allowed; the caller must resolve it.
void add_offload_key(ConfigSchema& schema, const std::string& kind, Offload* target,
                     const std::string& what, bool or_auto);
void add_nvme_path_key(ConfigSchema& schema, std::string* target);
void add_table_rows_key(ConfigSchema& schema, int64_t* target);

// For "auto", returns that everything is on the device. Throws ConfigError for an unknown tier, or
// if the shares exceed 1.
TierShares resolve_shares(const std::string& kind, const Offload& offload);
// Throws ConfigError if a tensor is stored on NVMe and nvme_path is empty.
void require_nvme_path(const Tiers& tiers);

}  // namespace colossal::memory
