#include "colossal/serve/generation_settings.h"

#include <gmock/gmock.h>

#include "colossal/base/error.h"

namespace colossal::serve {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

GenerationSettings settings_of(const json& fields) {
  GenerationSettings settings;
  EXPECT_THAT(apply_generation_config(settings, fields, 100, "file"), IsEmpty());
  return settings;
}

TEST(GenerationSettings, AreTheFieldsOfGenerationConfig) {
  EXPECT_EQ(describe(settings_of(json::object())), "");
  const GenerationSettings settings = settings_of({{"temperature", 0.5},
                                                   {"top_k", 7},
                                                   {"eos_token_id", 3},
                                                   {"max_new_tokens", 30},
                                                   {"transformers_version", "5"},
                                                   {"stop_strings", "end"},
                                                   {"bad_words_ids", {{1, 2}}}});
  EXPECT_EQ(settings.sampling.temperature, 0.5);
  EXPECT_EQ(
      describe(settings),
      "temperature = 0.5, top_k = 7, bad_words_ids (1), max_new_tokens = 30, stop_strings (1)");
  EXPECT_EQ(settings_of({{"temperature", 0.5}, {"do_sample", false}}).sampling.temperature, 0);
  const GenerationSettings beams =
      settings_of({{"num_beams", 4}, {"early_stopping", true}, {"top_p", 0.9}});
  EXPECT_EQ(beams.beams.width, 4);
  EXPECT_EQ(beams.beams.early_stopping, EarlyStopping::at_width);
  EXPECT_EQ(beams.sampling.temperature, 0);
  EXPECT_EQ(beams.sampling.top_p, 1);
}

TEST(GenerationSettings, NamesWhatIsNotSupported) {
  GenerationSettings settings;
  const json fields = {
      {"guidance_scale", 1.5}, {"num_beam_groups", 1}, {"num_beams", 4}, {"do_sample", true}};
  EXPECT_THAT(apply_generation_config(settings, fields, 100, "file"),
              ElementsAre("guidance_scale = 1.5", "num_beams = 4 with do_sample = true"));
  EXPECT_EQ(settings.beams.width, 1);
}

TEST(GenerationSettings, RefusesInvalidValuesByName) {
  for (const json& fields :
       {json{{"top_p", 0}}, json{{"top_k", 1.5}}, json{{"suppress_tokens", {100}}},
        json{{"sequence_bias", {{{1}, "x"}}}}, json{{"exponential_decay_length_penalty", {1}}},
        json{{"early_stopping", "soon"}}, json{{"stop_strings", {1}}}, json{{"num_beams", 0}}}) {
    GenerationSettings settings;
    try {
      apply_generation_config(settings, fields, 100, "file");
      ADD_FAILURE() << fields;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("file: " + fields.begin().key())) << fields;
    }
  }
}

TEST(GenerationSettings, TheLengthOfARequestIsThatOfTheSettings) {
  Request request;
  request.sampling.seed = 5;
  set_generation(request, settings_of({{"max_length", 40}}), 100);
  EXPECT_EQ(request.max_length, 40);
  EXPECT_GE(request.max_new_tokens, 40);
  EXPECT_EQ(request.sampling.seed, 5);
  set_generation(request, settings_of({{"max_length", 40}, {"max_new_tokens", 8}}), 100);
  EXPECT_EQ(request.max_length, 0);
  EXPECT_EQ(request.max_new_tokens, 8);
  set_generation(request, settings_of(json::object()), 100);
  EXPECT_EQ(request.max_new_tokens, 100);
}

}  // namespace
}  // namespace colossal::serve
