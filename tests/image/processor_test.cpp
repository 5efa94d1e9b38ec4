#include "colossal/image/processor.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "colossal/base/error.h"
#include "colossal/io/json.h"
#include "tests/support/temporary_directory.h"

namespace colossal::image {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Processor from(const std::string& fields, const std::string& model_type = "") {
  return Processor::from_json(io::parse_json(fields, "test"), "folder/p.json", model_type);
}

// The message for a file with the class of ViT and these fields.
std::string refused(const std::string& fields, const std::string& type = "ViTImageProcessor") {
  const std::string json = R"({"image_processor_type": ")" + type + R"(", )" + fields + "}";
  try {
    from(json);
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("folder/p.json: "));
    return error.what();
  }
  ADD_FAILURE() << json << " was taken";
  return "";
}

TEST(Processor, FieldsThatMayChangePixelsAreRefused) {
  EXPECT_THAT(refused(R"("do_resiez": false)"),
              AllOf(HasSubstr("\"do_resiez\" = false"), HasSubstr("did you mean do_resize?")));
  EXPECT_THAT(refused(R"("do_pad": true)"), HasSubstr("do_pad is true"));
  EXPECT_THAT(refused(R"("use_square_size": true)"), HasSubstr("use_square_size"));
  EXPECT_THAT(refused(R"("data_format": "channels_last")"), HasSubstr("channels_first"));
  EXPECT_THAT(refused(R"("crop_pct": 0.9)"), HasSubstr("crop_pct"));
  EXPECT_THAT(refused(R"("size": 0)"), HasSubstr("size is 0"));
  EXPECT_THAT(refused(R"("size": {"height": 3})"), HasSubstr("\"width\""));
  EXPECT_THAT(refused(R"("size": {"longest_edge": 3})"), HasSubstr("shortest_edge"));
  EXPECT_THAT(refused(R"("size": {"height": 3, "width": 3, "shortest_edge": 3})"),
              HasSubstr("size is"));
  EXPECT_THAT(refused(R"("size": {"height": 3, "width": 3})", "ConvNextImageProcessor"),
              HasSubstr("shortest_edge"));
  EXPECT_THAT(refused(R"("do_center_crop": true)"), HasSubstr("crop_size is null"));
  EXPECT_THAT(refused(R"("do_center_crop": true, "crop_size": {"shortest_edge": 3})"),
              HasSubstr("crop_size"));
  EXPECT_THAT(refused(R"("resample": 6)"), HasSubstr("3 (bicubic)"));
  EXPECT_THAT(refused(R"("resample": "bicubic")"), HasSubstr("resample is \"bicubic\""));
  EXPECT_THAT(refused(R"("do_resize": 1)"), HasSubstr("true or false"));
  EXPECT_THAT(refused(R"("rescale_factor": "1/255")"), HasSubstr("rescale_factor"));
  EXPECT_THAT(refused(R"("image_mean": [0.5, 0.5])"), HasSubstr("3 numbers"));
  EXPECT_THAT(refused(R"("image_std": [0.5, 0, 0.5])"), HasSubstr("other than 0"));
  EXPECT_THAT(refused(R"("size": 3)", "DetrImageProcessor"),
              AllOf(HasSubstr("DetrImageProcessor"), HasSubstr("ViTImageProcessor, ")));
}

TEST(Processor, FieldsThatChangeNothingAreTaken) {
  const std::string fields = R"({"image_processor_type": "ViTImageProcessorFast",
      "processor_class": "X", "_valid_processor_keys": ["a"], "do_pad": false, "pad_size": null,
      "data_format": "channels_first", "return_tensors": null, "device": null,
      "disable_grouping": null, "input_data_format": null, "use_square_size": false})";
  EXPECT_EQ(from(fields).to_json(), Processor(ProcessorOptions{}).to_json());
}

TEST(Processor, NamesOfOlderAndNewerClassesAreKnown) {
  for (const char* const type : {"CLIPImageProcessor", "CLIPImageProcessorFast",
                                 "CLIPImageProcessorPil", "CLIPFeatureExtractor"}) {
    const std::string name = type;
    EXPECT_EQ(from(R"({"image_processor_type": ")" + name + R"("})").options().kind,
              ProcessorKind::clip);
    EXPECT_EQ(from(R"({"feature_extractor_type": ")" + name + R"("})").options().kind,
              ProcessorKind::clip);
  }
}

TEST(Processor, TheModelsTypeNamesTheClassIfTheFileDoesNot) {
  EXPECT_EQ(from("{}", "dinov2").options().kind, ProcessorKind::bit);
  EXPECT_EQ(from("{}", "swin").options().kind, ProcessorKind::vit);
  for (const char* const type : {"", "llama"}) {
    try {
      from("{}", type);
      ADD_FAILURE() << "'" << type << "' was taken";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("image_processor_type"), HasSubstr(type)));
    }
  }
}

TEST(Processor, IsFoundInAFolder) {
  const test::TemporaryDirectory folder;
  try {
    Processor::from_folder(folder.path());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr(folder.path().string()), HasSubstr("preprocessor_config.json")));
  }
  folder.write("config.json", R"({"model_type": "beit"})");
  folder.write("preprocessor_config.json", R"({"size": 50})");
  EXPECT_EQ(Processor::from_folder(folder.path()).options().kind, ProcessorKind::beit);
  folder.write("processor_config.json", R"({"processor_class": "X"})");
  EXPECT_EQ(Processor::from_folder(folder.path()).output_size(), (ImageSize{50, 50}));
  folder.write("processor_config.json",
               R"({"image_processor": {"image_processor_type": "SiglipImageProcessor"}})");
  EXPECT_EQ(Processor::from_folder(folder.path()).options().kind, ProcessorKind::siglip);
  folder.write("processor_config.json", R"({"image_processor": {"do_pad": true}})");
  try {
    Processor::from_folder(folder.path());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("processor_config.json, image_processor: do_pad"));
  }
}

TEST(Processor, KnowsItsOutputsSizeUnlessItDependsOnTheImage) {
  const auto size = [](const std::string& fields, const std::string& model) {
    return from(fields, model).output_size();
  };
  EXPECT_EQ(size("{}", "vit"), (ImageSize{224, 224}));
  EXPECT_EQ(size("{}", "clip"), (ImageSize{224, 224}));
  EXPECT_EQ(size("{}", "convnext"), (ImageSize{384, 384}));
  EXPECT_EQ(size(R"({"size": {"height": 5, "width": 7}})", "siglip"), (ImageSize{5, 7}));
  EXPECT_EQ(size(R"({"do_center_crop": false})", "clip"), std::nullopt);
  EXPECT_EQ(size(R"({"do_resize": false})", "vit"), std::nullopt);
}

TEST(Processor, OfPlainOptionsNormalizes) {
  const Processor processor({.resize = ResizeRule{.size = {1, 2}},
                             .normalize = ProcessorOptions::Normalization{.mean = {0, 0.5, 0.25},
                                                                          .std = {1, 0.5, 0.25}}});
  const Image image{1, 2, {0, 0, 0, 255, 255, 255}};
  std::vector<float> pixels(6);
  processor.process_into(image, pixels);
  EXPECT_EQ(pixels, (std::vector<float>{0, 1, -1, 1, -1, 3}));
  EXPECT_THROW(processor.process_into(image, std::span(pixels).first(3)), InternalError);
  EXPECT_THROW(Processor({.kind = ProcessorKind::convnext}), InternalError);
  EXPECT_EQ(from(processor.to_json()).to_json(), processor.to_json());
}

}  // namespace
}  // namespace colossal::image
