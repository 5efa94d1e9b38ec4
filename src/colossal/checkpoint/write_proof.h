// Whether ranks can write where they will have to, found out before a run's first step.
//
// `setting` is the key that names the folder, for messages. What cannot be written is the same
// IoError on all ranks, naming ranks and hosts. Collective.
#pragma once

#include <filesystem>
#include <string>

#include "colossal/comm/group.h"

namespace colossal::checkpoint {

// All ranks write parts of one file, as a save does: in a folder that all hosts share.
void prove_shared_folder(const std::string& setting, const std::filesystem::path& folder,
                         const comm::Group& group);

// Proves that each rank that is `concerned` can write into the folder, by a file of each. Hosts
// need not share the folder. It is made if it is missing.
void prove_folder(const std::string& setting, const std::filesystem::path& folder, bool concerned,
                  const comm::Group& group);

}  // namespace colossal::checkpoint
