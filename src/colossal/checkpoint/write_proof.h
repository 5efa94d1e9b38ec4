// Checks, before a run's first step, that ranks can write where they will have to write.
//
// All functions: setting is the key that names the folder, for messages. If a rank cannot write,
// all ranks throw the same IoError; the message names the ranks and their hosts. Collective.
#pragma once

#include <filesystem>
#include <string>

#include "colossal/comm/group.h"

namespace colossal::checkpoint {

// Checks that all ranks can write parts of the same file in the folder, as a save does. All hosts
// must share the folder.
void check_shared_writable(const std::string& setting, const std::filesystem::path& folder,
                           const comm::Group& group);

// Checks that each rank with `concerned` = true can write a file into the folder. Hosts need not
// share the folder. Creates the folder if it is missing.
void check_writable(const std::string& setting, const std::filesystem::path& folder, bool concerned,
                    const comm::Group& group);

}  // namespace colossal::checkpoint
