// The config.json files of published models, as their authors wrote them: each opens and gives the
// loss of transformers, and every field that transformers reads is known.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "colossal/comm/world.h"
#include "colossal/data/text_batch.h"
#include "colossal/io/json.h"
#include "colossal/models/families.h"
#include "colossal/models/family_lookup.h"
#include "colossal/nn/dense_builder.h"
#include "tests/engine/oracle.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/whole_pass.h"

namespace colossal::test::published_oracle {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// What published_oracle.py makes; see there.
class Oracle {
 public:
  explicit Oracle(const std::string& models) {
    run_oracle("published_oracle.py", folder_.path(), models);
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (fs::exists(entry.path() / "result.safetensors")) directories_.push_back(entry.path());
    }
    std::ranges::sort(directories_);
  }

  const std::vector<fs::path>& directories() const { return directories_; }
  json fields() const { return io::read_json(folder_.path() / "fields.json"); }

 private:
  TemporaryDirectory folder_;
  std::vector<fs::path> directories_;
};

// Where the file has a parameter: also under a name without the model's own part, as published
// folders of GPT-2, BLOOM and BART have it.
TensorSlice slice_in(const io::SafetensorsReader& file,
                     const models::ModelSpecification& specification,
                     const std::string& parameter) {
  TensorSlice slice = models::slice_in_model(specification, parameter);
  if (!slice.stacked.empty() || file.find(slice.name)) return slice;
  slice.name = slice.name.substr(slice.name.find('.') + 1);
  return slice;
}

// Made once for all tests: most of its time is that of importing transformers.
const Oracle& oracle() {
  static const Oracle kOracle("");
  return kOracle;
}

double loss_of(const fs::path& directory) {
  const models::ModelSpecification specification =
      models::resolve_model({.path = (directory / "model").string()});
  nn::DenseBuilder build;
  const auto model = models::build_model(specification, build);
  const io::SafetensorsReader weights(directory / "model" / "model.safetensors");
  for (const nn::ParameterHandle& parameter : build.parameters()) {
    parameter->tensor =
        read_parameter(weights, "", slice_in(weights, specification, parameter->name), at::kDouble);
    EXPECT_EQ(parameter->tensor.sizes(), parameter->shape) << parameter->name;
  }
  const io::SafetensorsReader result(directory / "result.safetensors");
  const at::Tensor tokens = read_tensor(result, "tokens", at::kDouble).to(at::kLong);
  const int64_t batch = tokens.size(0), sequence = tokens.size(1) - 1;
  const at::Tensor inputs = tokens.narrow(1, 0, sequence), labels = tokens.narrow(1, 1, sequence);
  data::Batch read = data::text_batch(inputs, labels, std::vector<int64_t>(batch));
  for (const char* field : {data::kSource, data::kSourceDocuments}) {
    if (!result.find(field)) continue;
    read.set(field, read_tensor(result, field, at::kDouble).to(at::kLong));
  }
  const nn::StepContext context = model->context_of(read, {}, {});
  const at::Tensor sum = loss_sum_of(*model, read, labels, context);
  return (sum / static_cast<double>(labels.numel())).item<double>();
}

TEST(PublishedOracle, EveryPublishedConfigOpensAndGivesTransformersLoss) {
  const at::NoGradGuard no_grad;
  EXPECT_GE(oracle().directories().size(), 120u);
  for (const fs::path& directory : oracle().directories()) {
    const std::string name = io::read_file(directory / "name");
    const io::SafetensorsReader result(directory / "result.safetensors");
    const double expected = read_tensor(result, "loss", at::kDouble).item<double>();
    try {
      EXPECT_NEAR(loss_of(directory), expected, 1e-9 * expected) << name;
    } catch (const std::exception& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
}

// Fields that modules of transformers read, but not for what ours computes.
const std::set<std::string> kReadForOthers{
    "embedding_size",        // only whether hidden_size is checked
    "hidden_dropout",        // gpt2: of the class that labels tokens
    "summary_last_dropout",  // of a head for multiple choice
    "sparse_prediction",     // only to save time
    "mm_tokens_per_image",   // of images, as the next three
    "image_token_id",       "text_config", "vision_config",
    "get_text_config",  // a method
    "_is_quantized"};

// Fields of vision_config count as the family's. Those of text_config are of the tower for texts.
const std::set<std::string> kFamiliesWithTowers{"clip", "siglip"};
const std::set<std::string> kOfTowersForTexts{"max_position_embeddings", "projection_size",
                                              "vocab_size"};

// Whether ours obeys the field, or says why not, or knows that it has no effect. config: the field
// with no such value.
bool knows(const models::Family& family, const json& config) {
  models::ConfigFields fields(config, family.defaults);
  try {
    models::read_model(family, fields);
  } catch (const models::FieldError&) {
    return true;
  }
  return fields.unknown_fields().empty();
}

bool knows(const models::Family& family, const std::string& field) {
  const json given{{field, {{"no", "such value"}}}};
  json config = given;
  config["model_type"] = family.model_type;
  if (knows(family, config)) return true;
  if (!kFamiliesWithTowers.contains(family.model_type)) return false;
  return kOfTowersForTexts.contains(field) ||
         knows(family, {{"model_type", family.model_type}, {"vision_config", given}});
}

TEST(PublishedOracle, EveryFieldThatTransformersReadsIsKnown) {
  const json families = oracle().fields();
  EXPECT_EQ(families.size(), models::families().size());
  for (const models::Family& family : models::families()) {
    const auto fields = families.at(family.model_type).at("read").get<std::vector<std::string>>();
    for (const std::string& field : fields) {
      const bool renamed = std::ranges::any_of(
          family.other_names, [&](const auto& names) { return names.first == field; });
      const bool is_of_simplify = field == "rope_parameters";
      if (renamed || is_of_simplify || kReadForOthers.contains(field)) continue;
      EXPECT_TRUE(knows(family, field)) << family.model_type << ": " << field;
    }
  }
}

// A config.json of a model_type alone.
TEST(PublishedOracle, MissingFieldsHaveTransformersDefaults) {
  const json families = oracle().fields();
  for (const models::Family& family : models::families()) {
    const json defaults = families.at(family.model_type).at("defaults");
    json config{{"model_type", family.model_type}};
    if (family.model_type == "deepseek_v2") config["num_experts_per_tok"] = 6;  // has no default
    const TemporaryDirectory folder;
    std::ofstream(folder.path() / "config.json") << config;
    const json ours = models::resolve_model({.path = folder.path().string()}).config;
    if (defaults.contains("vocab_size")) {
      EXPECT_EQ(ours.at("vocab_size"), defaults.at("vocab_size")) << family.model_type;
    }
    if (ours.contains("vision_config")) {
      for (const auto& [field, value] : ours["vision_config"].items()) {
        if (field == "vision_use_head") continue;  // models that give classes have none
        EXPECT_EQ(value, defaults["vision_config"].at(field)) << family.model_type << ": " << field;
      }
    }
    for (const auto& [field, value] : ours.items()) {
      // transformers stores null for a default that follows from others, and for no window
      const bool follows = !defaults.contains(field) || defaults[field].is_null() ||
                           value.is_null() || field == "architectures" ||
                           field == "sliding_window" || field == "vision_config" ||
                           config.contains(field);
      if (!follows) {
        EXPECT_EQ(value, defaults[field]) << family.model_type << ": " << field;
      }
    }
    if (!defaults.contains("rope_parameters") || !ours.contains("rope_theta")) continue;
    const json rotary = defaults["rope_parameters"];
    EXPECT_EQ(ours["rope_theta"], rotary.value("full_attention", rotary).at("rope_theta"))
        << family.model_type;
  }
}

}  // namespace
}  // namespace colossal::test::published_oracle
