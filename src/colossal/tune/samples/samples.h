// Samples for tuning: reads lines of jsonl files and tokenizes them into rows. sample_line.h
// describes the lines; collate() (collate.h) makes batches of rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "colossal/data/packing.h"
#include "colossal/data/tokenize.h"
#include "colossal/text/chat_template.h"
#include "colossal/text/tokenizer/tokenizer.h"
#include "colossal/tune/samples/labels.h"
#include "colossal/tune/samples/sample_line.h"

namespace colossal::tune {

// A sequence of tokens: a prompt and its completion, or several samples (packed). A token is
// trained on if its `learned` is 1, i.e. the loss includes the prediction of this token.
struct Row {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> learned;  // per token, 1 or 0
  int64_t prompt_tokens = 0;     // number of leading tokens that are the prompt; 0 if packed
  // In a packed row whose samples do not attend to each other: the number of each token's sample
  // or part of a sample, from 0, and the token's position in it. Otherwise empty.
  std::vector<int64_t> documents = {};
  std::vector<int64_t> positions = {};
  // For SampleKind::labeled: the type of each token (text::TypedTokens). Otherwise empty.
  std::vector<int32_t> types = {};
  // Of an encoder-decoder: the tokens of the prompt, which the encoder reads. `tokens` are then the
  // model's start token and the completion. Otherwise empty.
  std::vector<int32_t> source = {};
  bool operator==(const Row&) const = default;
};

// A tokenized line of a file, or a packed row (pack_samples()).
struct Sample {
  std::vector<Row> rows;        // one row; preferences have two: chosen, rejected
  bool desirable = true;        // for unpaired preferences
  double margin = 0;            // for preferences: by how much the chosen completion is better
  nlohmann::json columns = {};  // for prompts: all fields of the line
  // For SampleKind::labeled: what targets_of() (labels.h) returns for the label; empty: no label.
  std::vector<double> targets = {};
  bool operator==(const Sample&) const = default;
};

// Options of read_samples().
struct SampleOptions {
  std::string setting;  // configuration key of the files, for messages
  SampleKind kind = SampleKind::language_modeling;
  // Most tokens of a row. A longer row is truncated at its end. A line is invalid if its prompt has
  // max_length or more tokens; for SampleKind::prompt, if it has more than max_length tokens.
  int64_t max_length = 1024;
  // For SampleKind::language_modeling: whether only completions are trained on; false: prompts,
  // too. A line without a prompt, such as {"text"} or {"messages"}, is trained on as a whole. For
  // other kinds, prompts are never trained on.
  bool completion_only = true;
  // Whether lines whose prompt has no tokens are invalid; for SampleKind::prompt, they always are.
  bool needs_prompt = false;
  // For SampleKind::language_modeling: trains only on text that the chat template marks with
  // {% generation %}. See LineOptions::assistant_only.
  bool assistant_only = false;
  // The decoder's start token if the model is an encoder-decoder: rows then have a `source`, and
  // lines without a prompt are invalid. nullopt for other models.
  std::optional<int32_t> decoder_start_token = {};
  // For SampleKind::labeled: the labels of the model; nullopt: labels are not read. And the fields
  // of the lines (LineOptions).
  std::optional<Labels> labels = {};
  std::string text_field = "text", pair_field = "text_pair", label_field = "label";
  // Renders messages; null: lines with messages are invalid.
  std::shared_ptr<const text::ChatTemplate> chat_template = {};
  data::InvalidFiles invalid = data::InvalidFiles::error;  // what to do with invalid lines
  data::FileFormat format = data::FileFormat::by_name;     // data.format; not text
  // The tokens before a text that no chat template rendered; nullopt: as encode_prompt() has them.
  std::optional<std::vector<int32_t>> before_text = {};
  std::function<void()> progress = [] {};  // called for each non-blank line; not null; may throw
};

// Result of read_samples().
struct Samples {
  std::vector<Sample> samples;
  std::string fingerprint;  // hash of all samples, equal for equal samples
  int64_t skipped = 0;      // number of invalid lines, which were skipped
  int64_t truncated = 0;    // number of rows and sources that were truncated
  int64_t chats = 0;        // number of lines that a chat template rendered
};

// Reads all rows of the files that match the patterns, file by file in the order of their paths. A
// file can have any format with rows (data/row_stream.h); with a name that says nothing, it has
// JSON lines, of which blank ones are skipped. "Line" below means a row as a JSON object. If a text
// does not end with the end-of-text token, this token is appended to its row. Nothing is appended
// to a prompt without a completion (SampleKind::prompt), nor to a text that a chat template
// rendered, nor with SampleKind::labeled, whose rows are text::Tokenizer::encode_texts(). A row
// that is then longer than options.max_length is truncated. A completion begins at the first token
// at which the tokens of the whole text differ from the tokens of the prompt alone; for
// preferences, at the smaller of the indices for chosen and rejected.
//
// An invalid line, also one that is not JSON, is counted in Samples::skipped if options.invalid is
// `skip`; else throws ConfigError, which names file and line. Throws ConfigError if a pattern
// matches no file or there are no samples; IoError if a file cannot be read.
Samples read_samples(const std::vector<std::string>& patterns, const text::Tokenizer& tokenizer,
                     const SampleOptions& options);

// Calls visit() with each row of the files, as read_samples() reads them. A row that is not JSON,
// or for which visit() throws, is skipped or refused as in read_samples(). label_field: of a csv
// file, the column that may have numbers.
void for_each_json_line(const std::vector<std::string>& patterns, const std::string& setting,
                        data::InvalidFiles invalid,
                        const std::function<void(const nlohmann::json&)>& visit,
                        const std::string& label_field = "label",
                        data::FileFormat format = data::FileFormat::by_name);

// Returns the number of rows of the files that match the patterns. setting: configuration key that
// names the files, for messages. Throws ConfigError if a pattern matches no file, and IoError if a
// file cannot be read.
int64_t count_lines(const std::vector<std::string>& patterns, const std::string& setting,
                    data::FileFormat format = data::FileFormat::by_name);

// Packs samples that have one row each into fewer rows of at most max_length tokens, and returns
// one sample per packed row. Packing::bfd truncates longer samples; bfd_split and wrapped divide
// them into parts. With bfd and bfd_split, each sample in a packed row (or part of a sample) is a
// document: its positions start at 0, attention does not cross documents, and its first token is
// not trained on. With wrapped, positions and attention span the whole row.
std::vector<Sample> pack_samples(const std::vector<Sample>& samples, int64_t max_length,
                                 data::Packing packing);

}  // namespace colossal::tune
