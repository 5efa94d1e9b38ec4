// A conversation in the terminal.
#pragma once

#include "colossal/cluster/signal_queue.h"
#include "colossal/serve/engine.h"
#include "colossal/server/served_model.h"

namespace colossal::cli {

// Reads messages from stdin, a line each, and writes the answers as they come, until /exit or the
// end of the input. /reset forgets the conversation; Ctrl-C stops the answer under way. Takes
// SIGINT, so it must be blocked in all threads (cluster::SignalQueue). request: sampling and length
// of each answer. Throws ConfigError for a model without a chat template.
void chat(serve::Engine& engine, const server::ServedModel& model, cluster::SignalQueue& interrupts,
          const serve::Request& request);

}  // namespace colossal::cli
