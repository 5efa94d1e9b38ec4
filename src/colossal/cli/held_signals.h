// LibTorch's static initialization takes some tenths of a second before main(). During that time, a
// stop signal or SIGHUP would kill the process without cleanup. These signals are therefore blocked
// from process start until a subcommand can handle them.
#pragma once

namespace colossal::cli {

// Unblocks the signals. main() calls it for all subcommands but train, run and serve, which take
// the signals from the start.
void release_held_signals();

}  // namespace colossal::cli
