// Interactive chat in the terminal: `colossal generate --chat`.
#pragma once

#include <string>
#include <vector>

#include "colossal/cluster/signal_queue.h"
#include "colossal/serve/engine.h"
#include "colossal/server/served_model.h"

namespace colossal::cli {

// How a chat begins.
struct ChatArguments {
  // Options of each answer, such as sampling and the maximum of new tokens; its prompt, end_tokens
  // and callbacks are not used.
  serve::Request request;
  std::vector<std::string> stop;  // texts that end an answer; not part of it
  std::string system;             // the system message; "": none
  bool shows_special = false;     // whether special tokens in answers are written
};

// Reads messages from stdin (message_reader.h) and streams the answers to stdout, until /exit or
// the end of input. Other lines that begin with a slash are commands, which /help lists. Ctrl-C
// stops the current answer; between answers, it says how to end the conversation. What is not an
// answer, such as the reason why one failed, is written to stderr. An answer of beam search appears
// as a whole. interrupts: a queue of SIGINT, created before other threads start. Throws ConfigError
// if the model has no chat template.
void chat(serve::Engine& engine, const server::ServedModel& model, cluster::SignalQueue& interrupts,
          const ChatArguments& arguments);

}  // namespace colossal::cli
