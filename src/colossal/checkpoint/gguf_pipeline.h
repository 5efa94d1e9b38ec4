// What a GGUF file can say about how a tokenizer splits and merges text. GGUF knows two kinds:
// byte-level BPE, whose normalizer and pre-tokenizer one of llama.cpp's names stands for; and
// SentencePiece's BPE with byte fallback, which merges the pair whose result has the highest score.
#pragma once

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

namespace colossal::checkpoint {

using Merges = std::vector<std::array<std::string, 2>>;  // texts of the left and the right token

// A normalizer and pre-tokenizer of byte-level BPE that llama.cpp has a name for.
struct NamedPipeline {
  std::string name;  // the value of tokenizer.ggml.pre
  // The parts of a tokenizer.json.
  nlohmann::ordered_json normalizer, pre_tokenizer;
  bool ignores_merges = false;  // BpeDefinition::ignore_merges
};
const std::vector<NamedPipeline>& named_pipelines();
// Returns the pipeline of this name. Throws ConfigError if it is not known. file: for the message.
const NamedPipeline& pipeline_of(const std::string& name, const std::filesystem::path& file);

// How a tokenizer.json splits text, in terms of GGUF.
struct GgufPipeline {
  const NamedPipeline* named = nullptr;  // of byte-level BPE
  bool space_prefix = false;             // else: whether a space is put before a text
};
// Reads the normalizer and the pre-tokenizer of a tokenizer.json. Throws ConfigError that names
// what a GGUF file cannot say. file: the path of the tokenizer.json.
GgufPipeline read_gguf_pipeline(const nlohmann::json& tokenizer, const std::filesystem::path& file);

// Returns all pairs of tokens that together are a token, as SentencePiece merges them: the pair
// whose result has the highest score first; pairs with the same result by their ids. texts, scores:
// of each token. is_normal: whether a token may result from a merge.
Merges merges_of_scores(const std::vector<std::string>& texts, const std::vector<double>& scores,
                        const std::vector<bool>& is_normal);

// Returns the first of `texts` that the merges do not make from its characters; "" if they make
// all. Texts with characters that are in none of `known` count as made.
std::string find_unmade_token(const std::vector<std::string>& texts, const Merges& merges,
                              const std::unordered_map<std::string, size_t>& known);

}  // namespace colossal::checkpoint
