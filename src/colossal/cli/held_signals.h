// LibTorch's initialization takes some tenths of a second before main(). A stop request that comes
// meanwhile, or a terminal that goes away, would end the process as any signal does; these signals
// are held until somebody can answer them.
#pragma once

namespace colossal::cli {

// Called by subcommands that answer no stop request: held signals act as usual from now on. Other
// subcommands leave them to cluster::StopListener or a launcher.
void release_held_signals();

}  // namespace colossal::cli
