// What fine-tuning learns from: lines of jsonl files as rows of tokens.
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

// A sequence, and which of its tokens are learned: those that a loss counts as predictions.
struct Row {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> learned;         // of each token
  int64_t prompt_tokens = 0;            // before the completion
  std::vector<int64_t> documents = {};  // of each token, of a row packed of several; empty: one
  std::vector<int64_t> positions = {};  // the same: of each in its document
  bool operator==(const Row&) const = default;
};

struct Sample {
  std::vector<Row> rows;        // one, or of a preference: the chosen and the rejected completion
  bool desirable = true;        // of an unpaired preference
  double margin = 0;            // of a preference: by how much its chosen completion is better
  nlohmann::json columns = {};  // of a prompt: its line
  bool operator==(const Sample&) const = default;
};

struct SampleOptions {
  std::string setting;  // the key that names the files, for messages
  SampleKind kind = SampleKind::language_modeling;
  // Tokens of a row: what is longer loses its end; but a longer prompt is an invalid line.
  int64_t max_length = 1024;
  bool completion_only = true;
  bool assistant_only = false;  // learn only what a chat template marks with {% generation %}
  std::shared_ptr<const text::ChatTemplate> chat_template = {};  // null: none are read
  data::InvalidFiles invalid = data::InvalidFiles::error;
  std::function<void()> progress = [] {};  // called now and then; may throw
};

struct Samples {
  std::vector<Sample> samples;
  std::string fingerprint;  // of their tokens
  int64_t skipped = 0;      // lines without a sample
  int64_t truncated = 0;    // rows that lost their end
};

// Reads all lines of files that the patterns match (jsonl, also .gz and .zst), in order. An
// end-of-text token follows each text and completion; a chat template ends its text itself. A
// completion begins where the tokens of the prompt alone and those of both together differ. Throws
// ConfigError naming file and line for a line that is no such sample (`invalid`: it is counted
// instead), and where there is no sample; IoError for a file that cannot be read.
Samples read_samples(const std::vector<std::string>& patterns, const text::Tokenizer& tokenizer,
                     const SampleOptions& options);

// How many lines the files have that are not blank. setting: the key that names them.
int64_t count_lines(const std::vector<std::string>& patterns, const std::string& setting);

// Rows of at most max_length tokens out of the samples' rows, several in each. bfd: attention and
// positions stay within each; wrapped: they go on over the row, whatever it holds.
std::vector<Sample> pack_samples(const std::vector<Sample>& samples, int64_t max_length,
                                 data::Packing packing);

}  // namespace colossal::tune
