// The keys of [memory] that training and generation share: memory.offload_*, memory.nvme_path and
// memory.table_rows.
#pragma once

#include <map>
#include <string>
#include <variant>

#include "colossal/base/config_schema.h"
#include "colossal/memory/tiers.h"

namespace colossal::memory {

// "none" (the device), "host", "nvme", "auto", or the fraction of bytes in each tier: {host = 0.5,
// nvme = 0.25}.
using Offload = std::variant<std::map<std::string, double>, std::string>;

// Add keys whose values are written to *target when a configuration is read. kind: "parameters" for
// the key memory.offload_parameters. what: the tensors that are offloaded, for the help text.
// or_auto: "auto" is allowed; the caller must resolve it.
void add_offload_key(ConfigSchema& schema, const std::string& kind, Offload* target,
                     const std::string& what, bool or_auto);
void add_nvme_path_key(ConfigSchema& schema, std::string* target);
void add_table_rows_key(ConfigSchema& schema, int64_t* target);

// Returns the fractions that `offload` means; for "auto", as for "none". kind: for messages. Throws
// ConfigError if a table names an unknown tier or its fractions add up to more than 1.
TierShares resolve_shares(const std::string& kind, const Offload& offload);
// Throws ConfigError if any fraction is stored on NVMe and nvme_path is empty.
void require_nvme_path(const Tiers& tiers);

}  // namespace colossal::memory
