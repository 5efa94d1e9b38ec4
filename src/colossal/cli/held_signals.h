// LibTorch's initialization takes some tenths of a second before main(). A stop request that comes
// meanwhile, or a terminal that goes away, would end the process as any signal does; these signals
// are held until somebody can answer them.
#pragma once

namespace colossal::cli {

// For subcommands that answer no stop request: those held act as usual, and so do later ones. The
// others leave them to cluster::StopListener or a launcher.
void release_held_signals();

}  // namespace colossal::cli
