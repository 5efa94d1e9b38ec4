// The keys of [memory] that training and generating share: memory.offload_*, memory.nvme_path and
// memory.table_rows.
#pragma once

#include <map>
#include <string>
#include <variant>

#include "colossal/base/config_schema.h"
#include "colossal/memory/tiers.h"

namespace colossal::memory {

// A tier, "auto", or which part of the bytes rests on which: {host = 0.5, nvme = 0.25}.
using Offload = std::variant<std::map<std::string, double>, std::string>;

// kind: "parameters", of the key memory.offload_parameters; `what` rests there, for the help.
// or_auto: "auto" is a choice, which the caller settles.
void add_offload_key(ConfigSchema& schema, const std::string& kind, Offload* target,
                     const std::string& what, bool or_auto);
void add_nvme_path_key(ConfigSchema& schema, std::string* target);
void add_table_rows_key(ConfigSchema& schema, int64_t* target);

// "auto" begins on the device. Throws ConfigError: an unknown tier, or more than all of it.
TierShares resolve_shares(const std::string& kind, const Offload& offload);
// Throws ConfigError where something rests on NVMe and no folder is given for it.
void require_nvme_path(const Tiers& tiers);

}  // namespace colossal::memory
