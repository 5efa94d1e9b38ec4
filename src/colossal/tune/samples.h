// Samples of fine-tuning: lines of jsonl files, read as rows of tokens.
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

// A sequence of tokens. The loss counts only predictions of those that are learned.
struct Row {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> learned;         // for each token 1 or 0
  int64_t prompt_tokens = 0;            // before the completion
  std::vector<int64_t> documents = {};  // of each token, in a packed row; empty: one document
  std::vector<int64_t> positions = {};  // of each token in its document, likewise
  bool operator==(const Row&) const = default;
};

struct Sample {
  std::vector<Row> rows;        // one; a preference has two: chosen, rejected
  bool desirable = true;        // of an unpaired preference
  double margin = 0;            // of a preference: by how much its chosen completion is better
  nlohmann::json columns = {};  // of a prompt: all fields of its line
  bool operator==(const Sample&) const = default;
};

struct SampleOptions {
  std::string setting;  // the key that names the files, for messages
  SampleKind kind = SampleKind::language_modeling;
  // The most tokens of a row. A longer row loses its end; a line with a longer prompt is invalid.
  int64_t max_length = 1024;
  bool completion_only = true;
  bool needs_prompt = false;    // a line whose prompt has no tokens is invalid
  bool assistant_only = false;  // learn only what a chat template marks with {% generation %}
  std::shared_ptr<const text::ChatTemplate> chat_template = {};  // null: conversations are refused
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
// ConfigError, naming file and line, for an invalid line (or counts it, as options.invalid says),
// ConfigError if there is no sample at all, and IoError for a file that cannot be read.
Samples read_samples(const std::vector<std::string>& patterns, const text::Tokenizer& tokenizer,
                     const SampleOptions& options);

// Returns how many lines of the files are not blank. setting: the key that names the files.
int64_t count_lines(const std::vector<std::string>& patterns, const std::string& setting);

// Packs the samples' rows into rows of at most max_length tokens. bfd, bfd_split: attention and
// positions stay within each sample. wrapped: they run on through the whole row.
std::vector<Sample> pack_samples(const std::vector<Sample>& samples, int64_t max_length,
                                 data::Packing packing);

}  // namespace colossal::tune
