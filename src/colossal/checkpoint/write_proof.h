// Checks, before a run's first step, that ranks can write where they will have to write.
//
// setting: the key that names the folder, for messages. If a rank cannot write, all ranks throw the
// same IoError; the message names ranks and hosts. Collective.
#pragma once

#include <filesystem>
#include <string>

#include "colossal/comm/group.h"

namespace colossal::checkpoint {

// Checks that all ranks can write parts of one file, as a save does, in a folder that all hosts
// share.
void check_shared_writable(const std::string& setting, const std::filesystem::path& folder,
                           const comm::Group& group);

// Checks that each rank with `concerned` = true can write a file into the folder. Hosts need not
// share the folder. Creates the folder if it is missing.
void check_writable(const std::string& setting, const std::filesystem::path& folder, bool concerned,
                    const comm::Group& group);

}  // namespace colossal::checkpoint
