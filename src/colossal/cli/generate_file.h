// Batch generation: completes the prompts of a jsonl file (`colossal generate --input`).
#pragma once

#include <string>
#include <vector>

#include "colossal/serve/engine.h"
#include "colossal/server/served_model.h"
#include "colossal/text/streaming_decoder.h"

namespace colossal::cli {

// The arguments of generate_file().
struct GenerateFileArguments {
  std::string input, output;  // paths of jsonl files
  // Options of all requests; its prompt and callbacks are not used. The answer to prompt i (from 0)
  // is drawn with the seed request.sampling.seed + i.
  serve::Request request;
  std::vector<std::string> stop;  // texts that end an answer; not part of it
  // Whether answers are texts of their own, which the decoder of an encoder-decoder writes, instead
  // of continuing prompts.
  bool are_texts = false;
  bool shows_special = false;  // whether special tokens in answers are written

  // Returns what turns the tokens of an answer to text. tokenizer: must outlive the result.
  // after_prompt: whether anything precedes the answer.
  text::StreamingDecoder decoder(const text::Tokenizer& tokenizer, bool after_prompt = true) const {
    using Begins = text::StreamingDecoder::Begins;
    return text::StreamingDecoder(
        tokenizer, after_prompt && !are_texts ? Begins::after_prompt : Begins::with_text,
        !shows_special);
  }
};

// Completes each line {"prompt": "..."} or {"messages": [...]} of the input; skips blank lines.
// Writes the lines to the output in the order of the input. Each output line is the input line with
// the fields "completion", "completion_tokens", "finish_reason" and, if what.request.logprobs is at
// least 0, "logprobs" added. In beam search, "completion" is the best text, and "beams" is added,
// too: all texts with their scores.
// Shows progress on stderr. Throws ConfigError naming file and line for an invalid prompt, Error if
// a request fails or a line cannot be written, IoError if a file cannot be opened or closed.
void generate_file(serve::Engine& engine, const server::ServedModel& model,
                   const GenerateFileArguments& what);

// Returns the number of prompts in the file. Throws ConfigError naming file and line for an invalid
// line, IoError if the file cannot be read.
int64_t count_prompts(const std::string& input);

}  // namespace colossal::cli
