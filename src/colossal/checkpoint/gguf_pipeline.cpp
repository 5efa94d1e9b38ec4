#include "colossal/checkpoint/gguf_pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "colossal/base/error.h"

namespace colossal::checkpoint {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kSpaceMark = "\xe2\x96\x81";  // U+2581, which stands for a space

constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

ordered_json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

ordered_json after(const ordered_json& first, const ordered_json& second) {
  return {{"type", "Sequence"}, {"pretokenizers", ordered_json::array({first, second})}};
}

ordered_json split_at(const char* pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

const json& field_of(const json& object, const char* name) {
  static const json null;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : null;
}

// Appends the steps of a part of a tokenizer.json, without nested sequences.
void append_steps(const json& part, const char* list, std::vector<json>& steps) {
  if (part.is_null()) return;
  if (field_of(part, "type") != "Sequence") return steps.push_back(part);
  for (const json& step : field_of(part, list)) append_steps(step, list, steps);
}

std::vector<json> steps_of(const json& part, const char* list) {
  std::vector<json> steps;
  append_steps(part, list, steps);
  return steps;
}

// Returns a step with the fields that affect tokens alone, and with the defaults of missing ones.
json essence(const json& step) {
  const json& type = field_of(step, "type");
  if (type == "ByteLevel") {
    return {{"type", type},
            {"add_prefix_space", step.value("add_prefix_space", true)},
            {"use_regex", step.value("use_regex", true)}};
  }
  if (type == "Digits") {
    return {{"type", type}, {"individual_digits", step.value("individual_digits", false)}};
  }
  if (type == "Split") {
    return {{"type", type},
            {"pattern", field_of(step, "pattern")},
            {"behavior", field_of(step, "behavior")},
            {"invert", step.value("invert", false)}};
  }
  if (type == "Metaspace") {
    const bool add = step.value("add_prefix_space", true);
    return {{"type", type},
            {"replacement", field_of(step, "replacement")},
            {"prepend_scheme", step.value("prepend_scheme", add ? "always" : "never")},
            {"split", step.value("split", true)}};
  }
  return step;
}

std::vector<json> essences(const json& part, const char* list) {
  std::vector<json> steps;
  for (const json& step : steps_of(part, list)) steps.push_back(essence(step));
  return steps;
}

std::string describe(const std::vector<json>& steps) {
  std::vector<std::string> texts;
  for (const json& step : steps) {
    std::vector<std::string> fields;
    for (const auto& [name, value] : step.items()) {
      if (name != "type") fields.push_back(fmt::format("{} = {}", name, value.dump()));
    }
    texts.push_back(fmt::format("{}{}{}{}", step.value("type", ""), fields.empty() ? "" : " (",
                                fmt::join(fields, ", "), fields.empty() ? "" : ")"));
  }
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", then "));
}

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& found,
                         const std::string& possible) {
  throw ConfigError(fmt::format(
      "{}: its {}, which a GGUF file cannot say, so that the same text would have other tokens; {}",
      file.string(), found, possible));
}

std::string pipeline_names() {
  std::vector<std::string> names;
  for (const NamedPipeline& known : named_pipelines()) names.push_back(known.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Whether each byte is a token of its own: without merges, it does not matter where words begin.
bool has_bytes_only(const json& tokenizer, const std::vector<json>& splits) {
  const json& merges = field_of(field_of(tokenizer, "model"), "merges");
  return merges.is_array() && merges.empty() && splits.size() == 1 &&
         field_of(splits.front(), "add_prefix_space") == false;
}

GgufPipeline read_byte_level(const std::vector<json>& normalizer, const std::vector<json>& splits,
                             bool bytes_only, const std::filesystem::path& file) {
  if (bytes_only && normalizer.empty()) return {.named = &named_pipelines().front()};
  const NamedPipeline* with_splits = nullptr;
  for (const NamedPipeline& known : named_pipelines()) {
    if (essences(json(known.pre_tokenizer), "pretokenizers") != splits) continue;
    if (!with_splits) with_splits = &known;
    if (essences(json(known.normalizer), "normalizers") == normalizer) return {.named = &known};
  }
  if (!with_splits) {
    refuse(file, fmt::format("pre_tokenizer is {}", describe(splits)),
           fmt::format("it can say llama.cpp's {}", pipeline_names()));
  }
  refuse(file, fmt::format("normalizer is {}", describe(normalizer)),
         fmt::format("with this pre_tokenizer it can say {}",
                     describe(essences(json(with_splits->normalizer), "normalizers"))));
}

GgufPipeline read_sentence_piece(std::vector<json> normalizer, const std::vector<json>& splits,
                                 const std::filesystem::path& file) {
  constexpr const char* kPossible =
      "it can say the normalizers Prepend and Replace of U+2581, or Replace alone, and the "
      "pre_tokenizer Metaspace with prepend_scheme = \"never\" and split = false";
  const json spaces{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}};
  const json metaspace{{"type", "Metaspace"},
                       {"replacement", kSpaceMark},
                       {"prepend_scheme", "never"},
                       {"split", false}};
  const json of_gemma{{"type", "Split"},  // finds nothing: there are no spaces any more
                      {"pattern", {{"String", " "}}},
                      {"behavior", "MergedWithPrevious"},
                      {"invert", false}};
  if (normalizer.empty() && splits == std::vector{metaspace}) return {};
  const json prepend{{"type", "Prepend"}, {"prepend", kSpaceMark}};
  const bool prefix = !normalizer.empty() && normalizer.front() == prepend;
  const std::vector<json> given = normalizer;
  if (prefix) normalizer.erase(normalizer.begin());
  if (normalizer != std::vector{spaces}) {
    if (!given.empty()) refuse(file, fmt::format("normalizer is {}", describe(given)), kPossible);
    refuse(file, fmt::format("pre_tokenizer is {}", describe(splits)), kPossible);
  }
  if (!splits.empty() && splits != std::vector{of_gemma}) {
    refuse(file, fmt::format("pre_tokenizer is {}", describe(splits)), kPossible);
  }
  return {.space_prefix = prefix};
}

std::vector<std::string> characters_of(const std::string& text) {
  std::vector<std::string> characters;
  for (const char c : text) {
    if ((c & 0xC0) == 0x80 && !characters.empty()) {
      characters.back() += c;
    } else {
      characters.emplace_back(1, c);
    }
  }
  return characters;
}

}  // namespace

const std::vector<NamedPipeline>& named_pipelines() {
  static const std::vector<NamedPipeline> kPipelines{
      {.name = "gpt-2", .normalizer = nullptr, .pre_tokenizer = byte_level(true)},
      {.name = "llama-bpe",
       .normalizer = nullptr,
       .pre_tokenizer = after(split_at(kLlama3Pattern), byte_level(false)),
       .ignores_merges = true},
      {.name = "qwen2",
       .normalizer = {{"type", "NFC"}},
       .pre_tokenizer = after(split_at(kQwen2Pattern), byte_level(false))},
      {.name = "smollm",
       .normalizer = nullptr,
       .pre_tokenizer =
           after({{"type", "Digits"}, {"individual_digits", true}}, byte_level(true))}};
  return kPipelines;
}

const NamedPipeline& pipeline_of(const std::string& name, const std::filesystem::path& file) {
  for (const NamedPipeline& known : named_pipelines()) {
    if (name == known.name) return known;
  }
  throw ConfigError(fmt::format("{}: the pre-tokenizer \"{}\" is not supported; supported are {}",
                                file.string(), name, pipeline_names()));
}

GgufPipeline read_gguf_pipeline(const json& tokenizer, const std::filesystem::path& file) {
  const std::vector<json> normalizer = essences(field_of(tokenizer, "normalizer"), "normalizers");
  const std::vector<json> splits = essences(field_of(tokenizer, "pre_tokenizer"), "pretokenizers");
  const bool is_byte_level = std::ranges::any_of(
      splits, [](const json& step) { return field_of(step, "type") == "ByteLevel"; });
  return is_byte_level
             ? read_byte_level(normalizer, splits, has_bytes_only(tokenizer, splits), file)
             : read_sentence_piece(normalizer, splits, file);
}

Merges merges_of_scores(const std::vector<std::string>& texts, const std::vector<double>& scores,
                        const std::vector<bool>& is_normal) {
  std::unordered_map<std::string, size_t> ids;
  for (size_t id = 0; id < texts.size(); ++id) ids.emplace(texts[id], id);
  std::vector<std::tuple<double, size_t, size_t>> found;  // minus its score, left and right token
  for (size_t id = 0; id < texts.size(); ++id) {
    if (!is_normal[id]) continue;
    const std::string& text = texts[id];
    for (size_t cut = 1; cut < text.size(); ++cut) {
      if ((text[cut] & 0xC0) == 0x80) continue;  // within a UTF-8 character
      const auto left = ids.find(text.substr(0, cut)), right = ids.find(text.substr(cut));
      if (left != ids.end() && right != ids.end()) {
        found.emplace_back(-scores[id], left->second, right->second);
      }
    }
  }
  std::ranges::sort(found);
  Merges merges;
  for (const auto& [score, left, right] : found) merges.push_back({texts[left], texts[right]});
  return merges;
}

std::string find_unmade_token(const std::vector<std::string>& texts, const Merges& merges,
                              const std::unordered_map<std::string, size_t>& known) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  std::unordered_map<std::string, size_t> ranks;
  const auto key_of = [](const std::string& left, const std::string& right) {
    return left + '\n' + right;
  };
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    ranks.emplace(key_of(merges[rank][0], merges[rank][1]), rank);
  }
  const auto rank_of = [&](const std::string& left, const std::string& right) {
    const auto found = ranks.find(key_of(left, right));
    return found == ranks.end() ? kNone : found->second;
  };
  for (const std::string& text : texts) {
    std::vector<std::string> parts = characters_of(text);
    if (!std::ranges::all_of(parts, [&](const auto& part) { return known.contains(part); })) {
      continue;
    }
    while (parts.size() > 1) {
      size_t best = kNone, at = 0;
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        const size_t rank = rank_of(parts[i], parts[i + 1]);
        if (rank < best) std::tie(best, at) = std::tuple(rank, i);
      }
      if (best == kNone) return text;
      parts[at] += parts[at + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
  }
  return "";
}

}  // namespace colossal::checkpoint
