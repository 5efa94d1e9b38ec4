// Stacks of all threads of a process, for a rank that hangs.
#pragma once

#include <string>

namespace colossal {

// From now on, SIGQUIT makes this process write the stacks of all its threads to stderr and go on.
// who: begins the text, such as "rank 3". Call it once. For functions of a program to have names,
// it must be linked with its dynamic symbols.
void write_stacks_on_sigquit(std::string who);

}  // namespace colossal
