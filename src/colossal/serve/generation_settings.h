// The settings of generation that a model's folder has: the fields of generation_config.json. All
// commands that generate text obey this one list.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "colossal/serve/request.h"
#include "colossal/text/model_folder.h"

namespace colossal::serve {

// How texts are generated unless a flag or a request says otherwise.
struct GenerationSettings {
  SamplingOptions sampling{};
  BeamSearchOptions beams{};
  std::optional<int64_t> max_new_tokens{};
  // The greatest number of tokens of a text, see Request::max_length. Ignored if max_new_tokens is
  // set.
  std::optional<int64_t> max_length{};
  std::vector<std::string> stop{};  // texts that end an answer, and are not part of it
};

// Changes `settings` as the fields of a generation_config.json say: temperature, top_k, top_p,
// min_p, typical_p, repetition_penalty, encoder_repetition_penalty, do_sample, num_beams,
// length_penalty, early_stopping, sequence_bias, no_repeat_ngram_size,
// encoder_no_repeat_ngram_size, bad_words_ids, suppress_tokens, begin_suppress_tokens, min_length,
// min_new_tokens, forced_bos_token_id, forced_eos_token_id, exponential_decay_length_penalty,
// max_new_tokens, max_length and stop_strings. A field that is null counts as missing. "do_sample":
// false makes temperature 0. With num_beams above 1, temperature and the filters top_k, top_p,
// min_p and typical_p are not used.
//
// vocabulary: number of tokens of the model. source: where the fields come from, for messages.
// Returns the fields, with their values, that are not supported and whose values would change the
// text. Throws ConfigError naming source, field and value if a value is invalid.
std::vector<std::string> apply_generation_config(GenerationSettings& settings,
                                                 const nlohmann::json& fields, int64_t vocabulary,
                                                 const std::string& source);

// Reads the settings of a model's folder. changed: an object with fields that take the place of
// the folder's; null in a field: as if the folder did not have it. Logs the settings, and those
// that are not supported. vocabulary: number of tokens of the model. Throws IoError if a file
// cannot be read, and as apply_generation_config().
GenerationSettings read_generation_settings(
    const text::ModelFolder& folder, int64_t vocabulary,
    const nlohmann::json& changed = nlohmann::json::object());

// Sets the number of beams, at least 2; beam search uses no temperature and no filters.
void use_beams(GenerationSettings& settings, int64_t width);

// Sets in `request` everything but prompt, seed, end tokens, stop strings and callbacks. otherwise:
// Request::max_new_tokens if the settings have neither max_new_tokens nor max_length.
void set_generation(Request& request, const GenerationSettings& settings, int64_t otherwise);

// Returns the settings that differ from the defaults of GenerationSettings, for the log, such as
// "temperature = 0.6, top_k = 20"; empty if there are none.
std::string describe(const GenerationSettings& settings);

}  // namespace colossal::serve
