// Stop signals during program start. LibTorch's static initialization takes some tenths of a second
// before main(). A stop signal (stop_request.h) or SIGHUP in this time would kill the process
// without cleanup. A program that links held_signals.cpp therefore starts with these signals
// blocked: a signal that arrives is pending until a subcommand can handle it.
#pragma once

namespace colossal::cli {

// Unblocks the signals; those that are pending then take effect. main() calls this function for all
// subcommands except train, tune, run and serve, which handle the signals themselves.
void unblock_signals();

}  // namespace colossal::cli
