// An orderly end on request: after SIGINT (Ctrl-C), SIGTERM (a launcher or scheduler), SIGHUP (the
// terminal went away) or SIGUSR1 (a scheduler's notice before its time limit) the training loop
// finishes its step, saves and ends.
#pragma once

#include <array>
#include <csignal>

namespace colossal::cluster {

inline constexpr std::array kStopSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};

// From now on the first of each of these signals sets the flag; a second one of the same kind ends
// the process as if nothing were installed. A signal that the process was started to ignore
// (nohup, a shell's background job) stays ignored.
void install_stop_handlers();

// Whether such a signal came. One flag for the process, since a signal has no other address.
bool stop_requested() noexcept;

}  // namespace colossal::cluster
