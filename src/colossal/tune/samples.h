// Samples for fine-tuning: lines of jsonl files, tokenized into rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/data/packing.h"
#include "colossal/data/tokenize.h"
#include "colossal/text/chat_template.h"
#include "colossal/text/tokenizer.h"
#include "colossal/tune/sample_line.h"

namespace colossal::tune {

// A sequence of tokens: a prompt and its completion, or several of them (packed). The loss includes
// only predictions of tokens with `learned` = 1.
struct Row {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> learned;  // per token, 1 or 0
  int64_t prompt_tokens = 0;     // number of tokens before the completion
  // Number of each token's document in a packed row, from 0; empty: one document.
  std::vector<int64_t> documents = {};
  std::vector<int64_t> positions = {};  // of each token in its document; empty: one document
  bool operator==(const Row&) const = default;
};

struct Sample {
  std::vector<Row> rows;        // one row; preferences have two: chosen, rejected
  bool desirable = true;        // for unpaired preferences
  double margin = 0;            // for preferences: by how much the chosen completion is better
  nlohmann::json columns = {};  // for prompts: all fields of the line
  bool operator==(const Sample&) const = default;
};

struct SampleOptions {
  std::string setting;  // configuration key of the files, for messages
  SampleKind kind = SampleKind::language_modeling;
  // Most tokens of a row. A longer row is truncated at its end; a line whose prompt leaves no room
  // for its completion is invalid.
  int64_t max_length = 1024;
  // true: only completions are trained on; false: prompts too (for SampleKind::language_modeling).
  bool completion_only = true;
  bool needs_prompt = false;    // lines whose prompt has no tokens are invalid
  bool assistant_only = false;  // trains only on text inside {% generation %} of the chat template
  // null: lines with messages are invalid
  std::shared_ptr<const text::ChatTemplate> chat_template = {};
  data::InvalidFiles invalid = data::InvalidFiles::error;  // what to do with invalid lines
  std::function<void()> progress = [] {};  // called regularly while reading; may throw
};

struct Samples {
  std::vector<Sample> samples;
  std::string fingerprint;  // hash of all samples
  int64_t skipped = 0;      // invalid lines, which were skipped
  int64_t truncated = 0;    // rows that were truncated
};

// Reads all non-blank lines of the files that match the patterns (jsonl, also .gz and .zst), in
// order. An end-of-text token is appended to each text and completion, unless it is there already
// or a chat template rendered the text. A completion begins at the first token at which the tokens
// of prompt and completion together differ from those of the prompt alone. Throws ConfigError,
// naming file and line, for an invalid line (or counts it, depending on options.invalid);
// ConfigError if there are no samples; IoError if a file cannot be read.
Samples read_samples(const std::vector<std::string>& patterns, const text::Tokenizer& tokenizer,
                     const SampleOptions& options);

// Returns the number of non-blank lines of the files. setting: configuration key of the files, for
// messages.
int64_t count_lines(const std::vector<std::string>& patterns, const std::string& setting);

// Packs samples of one row each into rows of at most max_length tokens. Packing::bfd, bfd_split:
// each sample in a row, or part of one, is a document: attention and positions are confined to it.
// Packing::wrapped: attention and positions span the whole row.
std::vector<Sample> pack_samples(const std::vector<Sample>& samples, int64_t max_length,
                                 data::Packing packing);

}  // namespace colossal::tune
