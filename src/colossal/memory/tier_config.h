// Declares and resolves the keys of [memory] that training, generation and serving share:
// memory.offload_*, memory.nvme_path and memory.table_rows.
#pragma once

#include <map>
#include <string>
#include <variant>

#include "colossal/base/config_schema.h"
#include "colossal/memory/tiers.h"

namespace colossal::memory {

// The value of a key memory.offload_*: "none" (all on the device), "host", "nvme", "auto", or the
// fraction of the bytes in each tier, such as {host = 0.5, nvme = 0.25}; the rest is on the device.
using Offload = std::variant<std::map<std::string, double>, std::string>;

// Adds the key memory.offload_KIND, where KIND is `kind`, such as "parameters". The value is
// written to *target when a configuration is read; `target` must outlive `schema`. what: the
// tensors that are offloaded, for the help text. or_auto: whether "auto" is allowed. Since
// resolve_shares() below reads "auto" as "none", the caller must then choose the fractions itself.
void add_offload_key(ConfigSchema& schema, const std::string& kind, Offload* target,
                     const std::string& what, bool or_auto);
// Adds the key memory.nvme_path. Its value is written to *target.
void add_nvme_path_key(ConfigSchema& schema, std::string* target);
// Adds the key memory.table_rows (Strategy::table_rows). Its value is written to *target.
void add_table_rows_key(ConfigSchema& schema, int64_t* target);

// Returns the fractions for `offload`, a value that a schema with add_offload_key() has read. For
// "auto", returns the fractions of "none"; the caller replaces them later. kind: last part of the
// key's name, such as "parameters", for messages. Throws ConfigError if a table in `offload` names
// a tier other than host and nvme, or if its fractions add up to more than 1.
TierShares resolve_shares(const std::string& kind, const Offload& offload);
// Throws ConfigError if `tiers` stores anything on NVMe but tiers.nvme_path is empty.
void require_nvme_path(const Tiers& tiers);

}  // namespace colossal::memory
