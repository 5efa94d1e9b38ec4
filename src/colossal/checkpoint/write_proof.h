// Checks, before a run's first step, that ranks can write to the folders to which they will write
// later, so that a wrong setting does not end the run after hours.
//
// Both functions are collective. If a rank cannot write, all ranks throw the same IoError; the
// message names the ranks and their hosts. setting: name of the setting that has the folder, such
// as "checkpoint.directory", for the message.
#pragma once

#include <filesystem>
#include <string>

#include "colossal/comm/group.h"

namespace colossal::checkpoint {

// Checks that all ranks can write parts of one file in the folder, as Save (checkpoint.h) does.
// Also fails if `folder` is not the same folder on all hosts, as on a network file system. Creates
// the folder if it is missing; removes the file afterwards.
void check_shared_writable(const std::string& setting, const std::filesystem::path& folder,
                           const comm::Group& group);

// Checks that each rank for which `concerned` is true can write a file in the folder; the other
// ranks check nothing. Hosts need not share the folder. Creates the folder if it is missing, and
// leaves no file in it.
void check_writable(const std::string& setting, const std::filesystem::path& folder, bool concerned,
                    const comm::Group& group);

}  // namespace colossal::checkpoint
