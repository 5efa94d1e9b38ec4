// Environment variables that our launcher sets for its ranks, in addition to those of torchrun.
#pragma once

#include <cstddef>

namespace colossal::cluster {

// Name of this run of the job, different each time; prefix of the store's keys.
inline constexpr const char* kJobVariable = "COLOSSAL_JOB";
// Set for rank 0: descriptor of a socket bound to MASTER_ADDR:MASTER_PORT, for the store.
inline constexpr const char* kStoreVariable = "COLOSSAL_STORE_FD";
// Descriptor to which a failing rank writes its last message.
inline constexpr const char* kErrorVariable = "COLOSSAL_ERROR_FD";
// Address to which a rank's data sockets bind. May also be set by the user, with any launcher.
inline constexpr const char* kInterfaceVariable = "COLOSSAL_INTERFACE_ADDRESS";

// Most bytes of a rank's last message.
inline constexpr size_t kMaxErrorBytes = 4000;

}  // namespace colossal::cluster
