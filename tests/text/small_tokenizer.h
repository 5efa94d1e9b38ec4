// A tokenizer.json small enough to read: all bytes, a few merges, GPT-2's cut.
#pragma once

#include <nlohmann/json.hpp>

#include "colossal/text/tokenizer/byte_alphabet.h"

namespace colossal::text {

// Bytes have their own numbers; then come the merged tokens and "<|endoftext|>".
inline nlohmann::json small_tokenizer() {
  nlohmann::json vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    const char value = static_cast<char>(byte);
    vocabulary[to_byte_alphabet({&value, 1})] = byte;
  }
  const char* merged[] = {"he", "ll",        "hell", "hello",      "\u0120w",
                          "or", "\u0120wor", "ld",   "\u0120world"};
  for (int i = 0; i < 9; ++i) vocabulary[merged[i]] = 256 + i;
  return {
      {"version", "1.0"},
      {"added_tokens",
       {{{"id", 265},
         {"content", "<|endoftext|>"},
         {"single_word", false},
         {"lstrip", false},
         {"rstrip", false},
         {"normalized", false},
         {"special", true}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", vocabulary},
        {"merges",
         {"h e", "l l", "he ll", "hell o", "\u0120 w", "o r", "\u0120w or", "l d",
          "\u0120wor ld"}}}}};
}

}  // namespace colossal::text
