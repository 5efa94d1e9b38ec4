// Interactive chat in the terminal: `colossal generate --chat`.
#pragma once

#include "colossal/cli/generate_file.h"
#include "colossal/cluster/signal_queue.h"
#include "colossal/serve/engine.h"
#include "colossal/server/served_model.h"

namespace colossal::cli {

// Reads one message per line from stdin and streams the answers to stdout, until /exit or the end
// of input. /reset clears the conversation. Ctrl-C stops the current answer; between answers, it
// prints how to end the conversation. If an answer fails, for example because the conversation is
// too long, writes the reason to stdout and goes on. interrupts: a queue of SIGINT, created before
// other threads start. how: options of each answer, such as sampling and the maximum of new tokens;
// input and output, and the prompt, end tokens and callbacks of the request are not used. An answer
// of beam search appears as a whole. Throws ConfigError if the model has no chat template.
void chat(serve::Engine& engine, const server::ServedModel& model, cluster::SignalQueue& interrupts,
          const GenerateFileArguments& how);

}  // namespace colossal::cli
