#include "colossal/tune/samples.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/data/json_line.h"
#include "colossal/data/source_files.h"
#include "colossal/data/text_pieces.h"
#include "colossal/io/json.h"

namespace colossal::tune {
namespace {

using data::InvalidLine;
using nlohmann::json;

// What a line holds, before it is tokens.
struct Texts {
  std::optional<std::string> prompt;
  std::vector<std::string> completions;  // of a preference: chosen, rejected
  bool desirable = true;
  double margin = 0;
};

const char* expected_fields(SampleKind kind) {
  switch (kind) {
    case SampleKind::preference:
      return R"({"prompt": "...", "chosen": "...", "rejected": "..."})";
    case SampleKind::unpaired:
      return R"({"prompt": "...", "completion": "...", "label": true})";
    case SampleKind::language_modeling:
      break;
  }
  return R"({"text": "..."} or {"prompt": "...", "completion": "..."})";
}

class LineReader {
 public:
  LineReader(const json& line, SampleKind kind) : line_(line), kind_(kind) {
    if (!line.is_object()) {
      throw InvalidLine(fmt::format("found {}, where an object is expected: {}",
                                    io::show_value(line), expected_fields(kind)));
    }
  }

  Texts read() const {
    switch (kind_) {
      case SampleKind::preference:
        return preference();
      case SampleKind::unpaired:
        return {.prompt = text("prompt"),
                .completions = {filled("completion")},
                .desirable = truth("label")};
      case SampleKind::language_modeling:
        break;
    }
    if (has("instruction")) return instruction();
    if (has("prompt")) return {.prompt = text("prompt"), .completions = {filled("completion")}};
    return {.prompt = {}, .completions = {filled("text")}};
  }

 private:
  bool has(const char* field) const { return line_.contains(field); }

  const json& value(const char* field) const {
    const auto found = line_.find(field);
    if (found != line_.end()) return *found;
    std::vector<std::string> names;
    for (const auto& [name, content] : line_.items()) names.push_back(name);
    throw InvalidLine(
        fmt::format("there is no \"{}\" among its fields ({}); expected is {}", field,
                    names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
                    expected_fields(kind_)));
  }

  std::string text(const char* field) const {
    const json& found = value(field);
    if (found.is_string()) return found.get<std::string>();
    throw InvalidLine(
        fmt::format("\"{}\" is {}, where a text is expected", field, io::show_value(found)));
  }

  std::string filled(const char* field) const {
    std::string found = text(field);
    if (!found.empty()) return found;
    throw InvalidLine(fmt::format("\"{}\" is empty: there is nothing to learn from", field));
  }

  bool truth(const char* field) const {
    const json& found = value(field);
    if (found.is_boolean()) return found.get<bool>();
    if (found == 0 || found == 1) return found == 1;
    throw InvalidLine(
        fmt::format("\"{}\" is {}, where true or false is expected", field, io::show_value(found)));
  }

  // Alpaca's.
  Texts instruction() const {
    const std::string input = has("input") ? text("input") : "";
    const std::string prompt = text("instruction") + (input.empty() ? "" : "\n" + input) + "\n";
    return {.prompt = prompt, .completions = {filled("output")}};
  }

  Texts preference() const {
    Texts texts{.prompt = {}, .completions = {text("chosen"), text("rejected")}};
    if (has("prompt")) {
      texts.prompt = text("prompt");
    } else {
      split_off_prompt(texts);
    }
    for (size_t i = 0; i < 2; ++i) {
      if (!texts.completions[i].empty()) continue;
      throw InvalidLine(fmt::format("its {} completion is empty: there is nothing to compare",
                                    i == 0 ? "chosen" : "rejected"));
    }
    if (has("margin")) {
      const json& margin = value("margin");
      if (!margin.is_number()) {
        throw InvalidLine(
            fmt::format("\"margin\" is {}, where a number is expected", io::show_value(margin)));
      }
      texts.margin = margin.get<double>();
    }
    return texts;
  }

  // What both completions begin with, but for a space at its end: it begins their first word.
  static void split_off_prompt(Texts& texts) {
    std::string &chosen = texts.completions[0], &rejected = texts.completions[1];
    const size_t most = std::min(chosen.size(), rejected.size());
    size_t shared = 0;
    while (shared < most && chosen[shared] == rejected[shared]) ++shared;
    while (shared > 0 && (static_cast<unsigned char>(chosen[shared]) & 0xc0) == 0x80) --shared;
    if (shared > 0 && chosen[shared - 1] == ' ') --shared;
    texts.prompt = chosen.substr(0, shared);
    chosen.erase(0, shared);
    rejected.erase(0, shared);
  }

  const json& line_;
  SampleKind kind_;
};

class RowMaker {
 public:
  RowMaker(const text::Tokenizer& tokenizer, const SampleOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  // Tokens are those of prompt and completion together, as a model meets them.
  Row make(const std::string& prompt, const std::string& completion, Samples& found) const {
    Row row;
    row.tokens = tokenizer_.encode_prompt(prompt + completion);
    if (row.tokens.empty() || row.tokens.back() != tokenizer_.end_of_text()) {
      row.tokens.push_back(tokenizer_.end_of_text());
    }
    const auto size = std::ssize(row.tokens);
    if (!prompt.empty()) {
      row.prompt_tokens = std::min<int64_t>(std::ssize(tokenizer_.encode_prompt(prompt)), size - 1);
    }
    row.learned.assign(size, 1);
    const bool all = options_.kind == SampleKind::language_modeling && !options_.completion_only;
    if (!all) std::fill_n(row.learned.begin(), row.prompt_tokens, 0);
    if (size > options_.max_length) {
      ++found.truncated;
      row.tokens.resize(options_.max_length);
      row.learned.resize(options_.max_length);
    }
    if (row.prompt_tokens >= std::ssize(row.tokens)) {
      throw InvalidLine(fmt::format(
          "its prompt has {} tokens, a row at most {}: nothing of the completion is left; raise "
          "data.sequence_length",
          row.prompt_tokens, options_.max_length));
    }
    return row;
  }

 private:
  const text::Tokenizer& tokenizer_;
  const SampleOptions& options_;
};

Sample make_sample(const Texts& texts, const RowMaker& maker, Samples& found) {
  Sample sample{.rows = {}, .desirable = texts.desirable, .margin = texts.margin};
  for (const std::string& completion : texts.completions) {
    sample.rows.push_back(maker.make(texts.prompt.value_or(""), completion, found));
  }
  return sample;
}

std::string fingerprint_of(const std::vector<Sample>& samples) {
  XXH3_state_t* const state = XXH3_createState();
  XXH3_128bits_reset(state);
  for (const Sample& sample : samples) {
    for (const Row& row : sample.rows) {
      const auto size = static_cast<int64_t>(row.tokens.size());
      XXH3_128bits_update(state, &size, sizeof size);
      XXH3_128bits_update(state, row.tokens.data(), row.tokens.size() * sizeof(int32_t));
      XXH3_128bits_update(state, row.learned.data(), row.learned.size());
    }
    XXH3_128bits_update(state, &sample.desirable, sizeof sample.desirable);
    XXH3_128bits_update(state, &sample.margin, sizeof sample.margin);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

using Place = std::function<std::string()>;  // FILE:LINE

// Calls with every line of the files that is not blank, in order; returns how many files there are.
int64_t for_each_line(const std::vector<std::string>& patterns, const std::string& setting,
                      const std::function<void(std::string_view, const Place&)>& visit) {
  const std::vector<data::SourceFile> files = data::find_source_files(patterns, setting);
  data::TokenizeOptions reading;
  reading.format = data::FileFormat::jsonl;
  reading.setting = setting;
  data::PieceReader pieces(files, /*takes_pieces=*/true, reading);
  while (const std::optional<data::TextPiece> piece = pieces.next()) {
    const data::SourceFile& file = files[piece->file];
    data::PieceText(*piece, file, reading).for_each_line([&](std::string_view line, auto number) {
      if (data::is_blank(line)) return;
      visit(line, [&] { return fmt::format("{}:{}", file.path, number()); });
    });
  }
  return std::ssize(files);
}

}  // namespace

Samples read_samples(const std::vector<std::string>& patterns, const text::Tokenizer& tokenizer,
                     const SampleOptions& options) {
  const RowMaker maker(tokenizer, options);
  Samples found;
  const auto read = [&](std::string_view line, const Place& place) {
    options.progress();
    try {
      const json object = io::parse_json(line, "the line");
      const Texts texts = LineReader(object, options.kind).read();
      found.samples.push_back(make_sample(texts, maker, found));
    } catch (const std::exception& error) {
      if (options.invalid == data::InvalidFiles::error) {
        throw ConfigError(fmt::format("{}: {}: {}; data.invalid = \"skip\" leaves such lines out",
                                      options.setting, place(), error.what()));
      }
      ++found.skipped;
    }
  };
  const int64_t files = for_each_line(patterns, options.setting, read);
  if (found.samples.empty()) {
    throw ConfigError(fmt::format("{}: no samples in {} files; expected are lines of {}",
                                  options.setting, format_count(files),
                                  expected_fields(options.kind)));
  }
  found.fingerprint = fingerprint_of(found.samples);
  return found;
}

int64_t count_lines(const std::vector<std::string>& patterns, const std::string& setting) {
  int64_t lines = 0;
  for_each_line(patterns, setting, [&](std::string_view, const Place&) { ++lines; });
  return lines;
}

std::vector<Sample> pack_samples(const std::vector<Sample>& samples, int64_t max_length,
                                 data::Packing packing) {
  std::vector<int64_t> lengths;
  for (const Sample& sample : samples) lengths.push_back(std::ssize(sample.rows.front().tokens));
  std::vector<Sample> packed;
  const bool apart = packing != data::Packing::wrapped;
  for (const data::PackedRow& parts : data::pack_documents(lengths, max_length, packing)) {
    Row row;
    int64_t number = 0;
    for (const auto& [document, range] : parts) {
      const Row& from = samples[document].rows.front();
      const auto begin = std::ssize(row.tokens);
      row.tokens.insert(row.tokens.end(), from.tokens.begin() + range.begin,
                        from.tokens.begin() + range.end);
      row.learned.insert(row.learned.end(), from.learned.begin() + range.begin,
                         from.learned.begin() + range.end);
      if (!apart) continue;
      row.learned[begin] = 0;  // nothing of its document is before it
      for (int64_t i = 0; i < range.size(); ++i) {
        row.documents.push_back(number);
        row.positions.push_back(i);
      }
      ++number;
    }
    packed.push_back({.rows = {std::move(row)}});
  }
  return packed;
}

}  // namespace colossal::tune
