// Names of the environment variables that our launcher sets for its ranks in addition to those of
// torchrun (local_launcher.h).
#pragma once

#include <cstddef>

namespace colossal::cluster {

// Name of the job, a random name for each start. It is the prefix of the store's keys.
inline constexpr const char* kJobVariable = "COLOSSAL_JOB";
// For rank 0: descriptor of an inherited socket that is bound to MASTER_ADDR:MASTER_PORT, at which
// rank 0 serves the store. Empty for other ranks.
inline constexpr const char* kStoreVariable = "COLOSSAL_STORE_FD";
// "1" if the launcher starts the ranks again after a pause or a failure (elastic jobs), else "".
inline constexpr const char* kElasticVariable = "COLOSSAL_ELASTIC";
// Elastic jobs on one host: a folder in memory for checkpoints. It outlives the ranks; the launcher
// removes it at its end. Else empty.
inline constexpr const char* kMemoryFolderVariable = "COLOSSAL_MEMORY_FOLDER";
// Descriptor of an inherited pipe to which send_error() writes a failing rank's last message.
inline constexpr const char* kErrorVariable = "COLOSSAL_ERROR_FD";
// Descriptor of an inherited pipe to which send_progress() writes.
inline constexpr const char* kProgressVariable = "COLOSSAL_PROGRESS_FD";
// Address of the network interface for a rank's connections to other ranks. The user may also set
// it, with any launcher.
inline constexpr const char* kInterfaceVariable = "COLOSSAL_INTERFACE_ADDRESS";

// Maximum size in bytes of a rank's last message.
inline constexpr size_t kMaxErrorBytes = 4000;

}  // namespace colossal::cluster
