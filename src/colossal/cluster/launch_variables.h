// The environment variables, beyond torchrun's, that our launcher sets for its ranks.
#pragma once

#include <cstddef>

namespace colossal::cluster {

// Names this attempt of the job; the prefix of the store's keys.
inline constexpr const char* kJobVariable = "COLOSSAL_JOB";
// Rank 0: the descriptor of a socket bound to MASTER_ADDR:MASTER_PORT, for the store.
inline constexpr const char* kStoreVariable = "COLOSSAL_STORE_FD";
// The descriptor to which a rank writes the message with which it fails.
inline constexpr const char* kErrorVariable = "COLOSSAL_ERROR_FD";
// The address at which a rank's data sockets bind. May also be set by hand, under any launcher.
inline constexpr const char* kInterfaceVariable = "COLOSSAL_INTERFACE_ADDRESS";

inline constexpr size_t kMaxErrorBytes = 4000;

}  // namespace colossal::cluster
