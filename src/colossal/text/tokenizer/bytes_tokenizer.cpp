#include "colossal/text/tokenizer/bytes_tokenizer.h"

#include <nlohmann/json.hpp>

#include "colossal/text/tokenizer/byte_alphabet.h"
#include "colossal/text/tokenizer/tokenizer_definition.h"

namespace colossal::text {
namespace {

using nlohmann::ordered_json;

constexpr const char* kEndOfTextContent = "<|endoftext|>";

// Returns the tokenizer.json: BPE without merges over GPT-2's byte alphabet, with token b for byte
// b.
ordered_json tokenizer_json() {
  ordered_json vocabulary = ordered_json::object();
  for (int byte = 0; byte < 256; ++byte) {
    const char value = static_cast<char>(byte);
    vocabulary[to_byte_alphabet({&value, 1})] = byte;
  }
  const ordered_json byte_level = {{"type", "ByteLevel"},
                                   {"add_prefix_space", false},
                                   {"trim_offsets", false},
                                   {"use_regex", false}};
  const ordered_json end_of_text = {{"id", BytesTokenizer::kEndOfText},
                                    {"content", kEndOfTextContent},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", ordered_json::array({end_of_text})},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", std::move(vocabulary)},
            {"merges", ordered_json::array()}}}};
}

ordered_json tokenizer_config() {
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"eos_token", kEndOfTextContent},
          {"clean_up_tokenization_spaces", false},
          {"split_special_tokens", true}};  // special tokens in a text are plain text
}

}  // namespace

BytesTokenizer::BytesTokenizer()
    : BytesTokenizer({{kTokenizerFile, tokenizer_json().dump(2)},
                      {kTokenizerConfigFile, tokenizer_config().dump(2)}}) {}

BytesTokenizer::BytesTokenizer(TokenizerFiles files) : files_(std::move(files)) {}

bool BytesTokenizer::is_described_by(const TokenizerFiles& files) {
  const std::string* json = find_file(files, kTokenizerFile);
  const std::string* config = find_file(files, kTokenizerConfigFile);
  if (!json || !config || *json != tokenizer_json().dump(2)) return false;
  const TokenizerConfig read = read_tokenizer_config(*config, kTokenizerConfigFile);
  return read.split_special_tokens && read.end_of_text == std::string(kEndOfTextContent);
}

std::vector<int32_t> BytesTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens(text.size());
  for (size_t i = 0; i < text.size(); ++i) tokens[i] = static_cast<uint8_t>(text[i]);
  return tokens;
}

std::string BytesTokenizer::decode(std::span<const int32_t> tokens) const {
  std::string bytes;
  for (int32_t token : tokens) {
    if (token >= 0 && token < 256) {
      bytes += static_cast<char>(token);
    } else if (token == kEndOfText) {
      bytes += kEndOfTextContent;
    }
  }
  return bytes;
}

}  // namespace colossal::text
