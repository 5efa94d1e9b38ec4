#include "colossal/tune/samples/samples.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string_view>

#include "colossal/base/counted.h"
#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/data/json_line.h"
#include "colossal/data/source_files.h"
#include "colossal/data/text_pieces.h"
#include "colossal/io/json.h"

namespace colossal::tune {
namespace {

using data::InvalidLine;

int64_t common_prefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

class SampleMaker {
 public:
  SampleMaker(const text::Tokenizer& tokenizer, const SampleOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  Sample make(const SampleTexts& texts, Samples& found) const {
    if (options_.kind == SampleKind::prompt) return make_prompt(texts);
    if (options_.kind == SampleKind::labeled) return make_labeled(texts, found);
    if (options_.decoder_start_token) return make_translated(texts, found);
    Sample sample{.rows = {}, .desirable = texts.desirable, .margin = texts.margin};
    int64_t prompt_tokens = 0;
    for (const SampleTexts::Whole& whole : texts.wholes) {
      Row row{.tokens = tokens_of(whole.text, whole.breaks, texts), .learned = {}};
      if (!texts.prompt.empty()) {
        const int64_t shared =
            common_prefix(tokens_of(texts.prompt, texts.prompt_breaks, texts), row.tokens);
        prompt_tokens = sample.rows.empty() ? shared : std::min(prompt_tokens, shared);
      }
      sample.rows.push_back(std::move(row));
    }
    for (size_t i = 0; i < sample.rows.size(); ++i) {
      finish(texts, texts.wholes[i], prompt_tokens, sample.rows[i], found);
    }
    if (options_.kind == SampleKind::preference) require_difference(texts, sample.rows);
    return sample;
  }

 private:
  Sample make_prompt(const SampleTexts& texts) const {
    Row row{.tokens = tokens_of(texts.prompt, texts.prompt_breaks, texts), .learned = {}};
    row.prompt_tokens = std::ssize(row.tokens);
    row.learned.assign(row.tokens.size(), 0);
    if (row.tokens.empty())
      throw InvalidLine("its prompt has no tokens, so there is nothing to start from");
    if (row.prompt_tokens > options_.max_length) {
      throw InvalidLine(fmt::format(
          "its prompt has {} tokens, but a prompt may have at most {}: raise data.sequence_length, "
          "which includes prompt and completion, or lower tune.max_completion_length",
          row.prompt_tokens, options_.max_length));
    }
    return {.rows = {std::move(row)}, .columns = texts.columns};
  }

  Sample make_labeled(const SampleTexts& texts, Samples& found) const {
    const std::string& first = texts.wholes.front().text;
    const std::string* const second = texts.second ? &*texts.second : nullptr;
    text::TypedTokens made;
    if (texts.is_chat) {
      made.tokens = tokenizer_.encode_with_breaks(first, texts.wholes.front().breaks);
      made.types.resize(made.tokens.size(), 0);
    } else {
      made = tokenizer_.encode_texts(first, second, std::numeric_limits<int32_t>::max());
    }
    if (made.tokens.empty()) throw InvalidLine("its text has no tokens");
    if (std::ssize(made.tokens) > options_.max_length) {
      ++found.truncated;
      if (texts.is_chat) {
        made.tokens.resize(options_.max_length);
        made.types.resize(options_.max_length);
      } else {
        made = tokenizer_.encode_texts(first, second, options_.max_length);
      }
    }
    if (std::ssize(made.tokens) > options_.max_length) {
      throw InvalidLine(
          fmt::format("its special tokens alone are more than data.sequence_length = "
                      "{} tokens",
                      options_.max_length));
    }
    Row row{.tokens = std::move(made.tokens), .learned = {}, .types = std::move(made.types)};
    row.learned.assign(row.tokens.size(), 0);
    Sample sample{.rows = {std::move(row)}};
    if (options_.labels) {
      if (texts.label.is_null()) {
        throw InvalidLine(fmt::format("there is no \"{}\" in it, which data.label_field names",
                                      options_.label_field));
      }
      sample.targets = targets_of(texts.label, *options_.labels);
    }
    return sample;
  }

  // For an encoder-decoder.
  Sample make_translated(const SampleTexts& texts, Samples& found) const {
    if (texts.is_chat) {
      throw InvalidLine(
          "it has messages, but an encoder-decoder has no chat template: give a prompt and a "
          "completion as texts");
    }
    if (texts.prompt.empty()) {
      throw InvalidLine(
          "it has no prompt, but an encoder-decoder reads a prompt and writes its completion");
    }
    Sample sample{.rows = {}, .desirable = texts.desirable, .margin = texts.margin};
    for (const SampleTexts::Whole& whole : texts.wholes) {
      if (!whole.text.starts_with(texts.prompt)) {
        throw InvalidLine("its completion does not follow its prompt");
      }
      Row row{.tokens = target_of(whole.text.substr(texts.prompt.size())),
              .learned = {},
              .prompt_tokens = 1,
              .source = whole_tokens_of(texts.prompt)};
      if (std::ssize(row.source) > options_.max_length) {
        row.source = tokenizer_.encode_texts(texts.prompt, nullptr, options_.max_length).tokens;
        row.source.resize(std::min<int64_t>(std::ssize(row.source), options_.max_length));
        ++found.truncated;
      }
      if (std::ssize(row.tokens) > options_.max_length) {
        row.tokens.resize(options_.max_length);
        ++found.truncated;
      }
      row.learned.assign(row.tokens.size(), 1);
      row.learned.front() = 0;
      if (row.source.empty()) throw InvalidLine("its prompt has no tokens");
      if (row.tokens.size() < 2) {
        throw InvalidLine(
            fmt::format("nothing of its completion is left: rows have at most "
                        "data.sequence_length = {} tokens",
                        options_.max_length));
      }
      sample.rows.push_back(std::move(row));
    }
    if (options_.kind == SampleKind::preference) require_difference(texts, sample.rows);
    return sample;
  }

  // Returns the tokens with the special tokens that the model expects around a text.
  std::vector<int32_t> whole_tokens_of(const std::string& text) const {
    return tokenizer_.encode_texts(text, nullptr, std::numeric_limits<int32_t>::max()).tokens;
  }

  // Returns the decoder's start token, the tokens of the completion, and the end of text.
  std::vector<int32_t> target_of(const std::string& completion) const {
    std::vector<int32_t> tokens = whole_tokens_of(completion);
    tokens.insert(tokens.begin(), *options_.decoder_start_token);
    if (tokens.size() == 1 || tokens.back() != tokenizer_.end_of_text()) {
      tokens.push_back(tokenizer_.end_of_text());
    }
    return tokens;
  }

  // Adds no special tokens to a chat: its template has written them.
  std::vector<int32_t> tokens_of(const std::string& text, std::span<const size_t> breaks,
                                 const SampleTexts& texts) const {
    if (texts.is_chat) return tokenizer_.encode_with_breaks(text, breaks);
    std::vector<int32_t> tokens = tokenizer_.encode_prompt(text);
    if (!options_.before_text) return tokens;
    tokens.erase(tokens.begin(), tokens.begin() + std::ssize(tokenizer_.beginning_of_text()));
    tokens.insert(tokens.begin(), options_.before_text->begin(), options_.before_text->end());
    return tokens;
  }

  void finish(const SampleTexts& texts, const SampleTexts::Whole& whole, int64_t prompt_tokens,
              Row& row, Samples& found) const {
    std::vector<int32_t>& tokens = row.tokens;
    if (whole.learned) {
      row.learned = tokens_within(*whole.learned, whole.text, tokens);
    } else {
      row.learned.assign(tokens.size(), 1);
    }
    if (!texts.is_chat && (tokens.empty() || tokens.back() != tokenizer_.end_of_text())) {
      tokens.push_back(tokenizer_.end_of_text());
      row.learned.push_back(1);
    }
    row.prompt_tokens = std::min<int64_t>(prompt_tokens, std::ssize(tokens) - 1);
    const bool all = options_.kind == SampleKind::language_modeling && !options_.completion_only;
    if (!all) std::fill_n(row.learned.begin(), row.prompt_tokens, 0);
    if (std::ssize(tokens) > options_.max_length) {
      ++found.truncated;
      tokens.resize(options_.max_length);
      row.learned.resize(options_.max_length);
    }
    if (options_.needs_prompt && row.prompt_tokens == 0) {
      throw InvalidLine(
          "its prompt has no tokens of its own, but a completion must be sampled after it: give a "
          "longer prompt, or use tune.lmbda = 0");
    }
    if (row.prompt_tokens >= std::ssize(tokens)) {
      throw InvalidLine(
          fmt::format("its prompt has {} tokens, but a row has at most {}, so nothing of the "
                      "completion is left; raise data.sequence_length",
                      row.prompt_tokens, options_.max_length));
    }
    // The first token is never a label.
    if (std::find(row.learned.begin() + 1, row.learned.end(), 1) == row.learned.end()) {
      throw InvalidLine(fmt::format(
          "there is nothing to learn in its first data.sequence_length = {} tokens{}; raise "
          "data.sequence_length",
          options_.max_length,
          options_.assistant_only ? ", after which the assistant speaks" : ""));
    }
  }

  // Throws InvalidLine if both rows of a preference have the same tokens.
  void require_difference(const SampleTexts& texts, const std::vector<Row>& rows) const {
    if (rows[0].tokens != rows[1].tokens) return;
    const bool is_cut = texts.wholes[0].text != texts.wholes[1].text;
    throw InvalidLine(fmt::format(
        "its chosen and its rejected completion are the same{}, so there is nothing to prefer",
        is_cut ? fmt::format(" within data.sequence_length = {} tokens", options_.max_length)
               : ""));
  }

  // Returns for each token whether it has bytes within the spans.
  std::vector<uint8_t> tokens_within(const std::vector<text::jinja::Span>& spans,
                                     const std::string& text,
                                     const std::vector<int32_t>& tokens) const {
    std::vector<uint8_t> within(tokens.size(), 0);
    size_t begin = 0, span = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const std::string bytes = i == 0 ? tokenizer_.decode({&tokens[i], 1})
                                       : tokenizer_.decode_continuation({&tokens[i], 1});
      if (text.compare(begin, bytes.size(), bytes) != 0) {
        throw InvalidLine(
            "tune.assistant_only_loss: the tokenizer changes the text, so the assistant's tokens "
            "cannot be determined; use false, or lines with a prompt and a completion");
      }
      const size_t end = begin + bytes.size();
      while (span < spans.size() && spans[span].end <= begin) ++span;
      within[i] = span < spans.size() && spans[span].begin < end;
      begin = end;
    }
    return within;
  }

  const text::Tokenizer& tokenizer_;
  const SampleOptions& options_;
};

std::string fingerprint_of(const std::vector<Sample>& samples) {
  XXH3_state_t* const state = XXH3_createState();
  XXH3_128bits_reset(state);
  for (const Sample& sample : samples) {
    for (const Row& row : sample.rows) {
      const auto size = static_cast<int64_t>(row.tokens.size());
      XXH3_128bits_update(state, &size, sizeof size);
      XXH3_128bits_update(state, row.tokens.data(), row.tokens.size() * sizeof(int32_t));
      XXH3_128bits_update(state, row.learned.data(), row.learned.size());
      XXH3_128bits_update(state, row.source.data(), row.source.size() * sizeof(int32_t));
    }
    XXH3_128bits_update(state, &sample.desirable, sizeof sample.desirable);
    XXH3_128bits_update(state, &sample.margin, sizeof sample.margin);
    XXH3_128bits_update(state, sample.targets.data(), sample.targets.size() * sizeof(double));
    if (!sample.columns.is_null()) {
      const std::string columns = sample.columns.dump();
      XXH3_128bits_update(state, columns.data(), columns.size());
    }
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

using Place = std::function<std::string()>;  // FILE:LINE

// The columns of csv files that are not texts.
const std::set<std::string> kTypedColumns{"label", "margin",        "messages",
                                          "tools", "conversations", "chat_template_kwargs"};

// Calls visit() with each row of the files that is not blank, as a JSON line, in order.
// label_field: a column that may have numbers. Returns the number of files.
int64_t for_each_line(const std::vector<std::string>& patterns, const std::string& setting,
                      const std::string& label_field, data::FileFormat format,
                      const std::function<void(std::string_view, const Place&)>& visit) {
  if (format == data::FileFormat::text) {
    throw ConfigError(fmt::format(
        "data.format = \"text\": the samples of {} are rows; use \"auto\" or a format with rows",
        setting));
  }
  const std::vector<data::SourceFile> files = data::find_source_files(
      patterns, setting, {.format = format, .otherwise = data::FileFormat::jsonl});
  data::TokenizeOptions reading;
  reading.rows.typed_columns = kTypedColumns;
  reading.rows.typed_columns.insert(label_field);
  reading.setting = setting;
  data::PieceReader pieces(files, /*is_concatenative=*/true, reading);
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
  const SampleMaker maker(tokenizer, options);
  std::optional<text::ChatTemplate> chat_template;
  if (options.chat_template) {
    const text::ChatTemplate& given = *options.chat_template;
    chat_template.emplace(given.protecting(tokenizer.special_tokens()));
  }
  Samples found;
  const auto read = [&](std::string_view line, const Place& place) {
    options.progress();
    try {
      const SampleTexts texts =
          read_sample_line(line, {.kind = options.kind,
                                  .chat_template = chat_template ? &*chat_template : nullptr,
                                  .assistant_only = options.assistant_only,
                                  .text_field = options.text_field,
                                  .pair_field = options.pair_field,
                                  .label_field = options.label_field});
      found.samples.push_back(maker.make(texts, found));
      if (texts.is_chat) ++found.chats;
    } catch (const std::exception& error) {
      if (options.invalid == data::InvalidFiles::error) {
        throw ConfigError(fmt::format("{}: {}: {}; data.invalid = \"skip\" skips such lines",
                                      options.setting, place(), error.what()));
      }
      ++found.skipped;
    }
  };
  const int64_t files =
      for_each_line(patterns, options.setting, options.label_field, options.format, read);
  if (found.samples.empty()) {
    throw ConfigError(fmt::format("{}: no samples in {}; expected are rows of {}", options.setting,
                                  counted(files, "file"), expected_fields(options.kind)));
  }
  found.fingerprint = fingerprint_of(found.samples);
  return found;
}

void for_each_json_line(const std::vector<std::string>& patterns, const std::string& setting,
                        data::InvalidFiles invalid,
                        const std::function<void(const nlohmann::json&)>& visit,
                        const std::string& label_field, data::FileFormat format) {
  for_each_line(
      patterns, setting, label_field, format, [&](std::string_view line, const Place& place) {
        try {
          const nlohmann::json json = io::parse_json(line, "the line");
          if (!json.is_object()) throw InvalidLine("it is not a JSON object");
          visit(json);
        } catch (const std::exception& error) {
          if (invalid == data::InvalidFiles::skip) return;
          throw ConfigError(fmt::format("{}: {}: {}; data.invalid = \"skip\" skips such lines",
                                        setting, place(), error.what()));
        }
      });
}

int64_t count_lines(const std::vector<std::string>& patterns, const std::string& setting,
                    data::FileFormat format) {
  int64_t lines = 0;
  for_each_line(patterns, setting, "label", format,
                [&](std::string_view, const Place&) { ++lines; });
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
      row.learned[begin] = 0;  // nothing precedes the first token of a document
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
