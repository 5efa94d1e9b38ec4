// Stop signals during program start. LibTorch's static initialization takes some tenths of a second
// before main(). A stop signal or SIGHUP in this time would kill the process without cleanup. These
// signals are therefore blocked from process start until a subcommand can handle them.
#pragma once

namespace colossal::cli {

// Unblocks the signals. main() calls this function for all subcommands except train, run and serve,
// which handle the signals themselves.
void unblock_signals();

}  // namespace colossal::cli
