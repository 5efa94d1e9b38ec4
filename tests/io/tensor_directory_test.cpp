#include "colossal/io/tensor_directory.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/io/files.h"
#include "tests/support/temporary_directory.h"

namespace colossal::io {
namespace {

using test::write_safetensors;
using test::write_text;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kShard1 = "model-00001-of-00002.safetensors";
constexpr const char* kShard2 = "model-00002-of-00002.safetensors";

class TensorDirectoryTest : public ::testing::Test {
 protected:
  // Writes two shards: "b" and "a" in the first, "c" in the second.
  void write_shards() {
    write_safetensors(folder_ / kShard1, {{"b", ScalarType::f32, {2}}, {"a", ScalarType::u8, {3}}});
    write_safetensors(folder_ / kShard2, {{"c", ScalarType::f32, {4}}});
  }

  void write_index(const nlohmann::json& weight_map, const nlohmann::json& total_size = 27) {
    const nlohmann::json index = {{"metadata", {{"total_size", total_size}}},
                                  {"weight_map", weight_map}};
    write_text(folder_ / "model.safetensors.index.json", index.dump());
  }

  nlohmann::json sound_map() const { return {{"a", kShard1}, {"b", kShard1}, {"c", kShard2}}; }

  std::string refusal(OutsideLinks links = OutsideLinks::refuse) {
    return test::message_of([&] { const TensorDirectory directory(folder_.path(), links); });
  }

  colossal::test::TemporaryDirectory folder_;
};

TEST_F(TensorDirectoryTest, OpensASingleFile) {
  write_safetensors(folder_ / "model.safetensors", {{"w", ScalarType::f32, {2}}});
  const TensorDirectory directory(folder_.path());
  EXPECT_THAT(directory.names(), ElementsAre("w"));
  EXPECT_EQ(directory.find("w").entry->bytes(), 8);
  EXPECT_EQ(directory.find("w").file->path(), folder_ / "model.safetensors");
  EXPECT_FALSE(directory.contains("v"));
  EXPECT_THAT(test::message_of([&] { directory.find("v"); }),
              AllOf(HasSubstr("no tensor \"v\" among its 1"), HasSubstr(folder_.path().string())));
}

TEST_F(TensorDirectoryTest, OpensShards) {
  write_shards();
  write_index(sound_map());
  const TensorDirectory directory(folder_.path());
  EXPECT_THAT(directory.names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(directory.find("b").file->path(), folder_ / kShard1);
  EXPECT_EQ(directory.find("c").file->path(), folder_ / kShard2);
}

TEST_F(TensorDirectoryTest, ShardNamesCannotLeaveTheFolder) {
  write_shards();
  const auto nul = std::string("model\0.safetensors", 18);
  const std::string names[] = {"../x.safetensors",
                               "../../etc/x.safetensors",
                               "/etc/passwd",
                               "/tmp/x.safetensors",
                               "a/../../b.safetensors",
                               "sub/x.safetensors",
                               "..\\x.safetensors",
                               "%2e%2e%2fx.safetensors",
                               "..safetensors",
                               "x..safetensors",
                               ".safetensors",
                               "",
                               ".",
                               "..",
                               "model.bin",
                               "model.safetensors ",
                               "modél.safetensors",
                               nul,
                               std::string(4096, 'a') + ".safetensors"};
  for (const std::string& name : names) {
    auto map = sound_map();
    map["c"] = name;
    write_index(map);
    EXPECT_THAT(refusal(), AllOf(HasSubstr("index.json: tensor \"c\" is said to be in"),
                                 HasSubstr("not the plain name")))
        << name;
  }
  auto map = sound_map();
  map["c"] = 3;
  write_index(map);
  EXPECT_THAT(refusal(), HasSubstr("not the plain name"));
}

TEST_F(TensorDirectoryTest, LinksThatLeaveAreRefusedUnlessAllowed) {
  colossal::test::TemporaryDirectory outside;
  write_shards();
  write_index(sound_map());
  std::filesystem::rename(folder_ / kShard2, outside / "blob");
  std::filesystem::create_symlink(outside / "blob", folder_ / kShard2);
  EXPECT_THAT(refusal(), HasSubstr("leaves its folder"));
  EXPECT_EQ(refusal(OutsideLinks::follow), "nothing was thrown");

  std::filesystem::create_symlink(outside / "blob", folder_ / "model.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("leaves its folder"));
}

TEST_F(TensorDirectoryTest, IndexAndShardsMustNameTheSameTensors) {
  write_shards();
  write_index({{"a", kShard1}, {"b", kShard1}, {"c", kShard1}});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("tensor \"c\" is in"), HasSubstr("where it is not")));
  write_index({{"a", kShard1}, {"c", kShard2}});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("holds the tensor \"b\""), HasSubstr("does not place")));
  write_index({{"a", kShard1}, {"b", kShard1}, {"c", "model-00003-of-00003.safetensors"}});
  EXPECT_THAT(refusal(), HasSubstr("model-00003-of-00003.safetensors: cannot open"));
}

TEST_F(TensorDirectoryTest, NoTensorMayBeInTwoShards) {
  write_shards();
  write_safetensors(folder_ / kShard2, {{"c", ScalarType::f32, {4}}, {"a", ScalarType::u8, {3}}});
  write_index(sound_map());
  EXPECT_THAT(refusal(), HasSubstr("holds the tensor \"a\""));
  write_text(
      folder_ / "model.safetensors.index.json",
      fmt::format(R"({{"weight_map": {{"a": "{0}", "b": "{0}", "a": "{1}"}}}})", kShard1, kShard2));
  EXPECT_THAT(refusal(), HasSubstr("the key \"a\" twice"));
}

TEST_F(TensorDirectoryTest, TheTotalMustFitTheShards) {
  write_shards();
  for (const nlohmann::json& total :
       {nlohmann::json(0), nlohmann::json(27), nlohmann::json(27.0)}) {
    write_index(sound_map(), total);
    EXPECT_EQ(refusal(), "nothing was thrown") << total;
  }
  for (const nlohmann::json& total :
       {nlohmann::json(1000), nlohmann::json(-1), nlohmann::json(1e30)}) {
    write_index(sound_map(), total);
    EXPECT_THAT(refusal(), HasSubstr("bytes in all")) << total;
  }
  write_index(sound_map(), "27");
  EXPECT_THAT(refusal(), HasSubstr("total_size is not a number"));
}

TEST_F(TensorDirectoryTest, AnIndexOfAnotherShapeIsRefused) {
  for (const char* text : {"[]", "{}", "3", R"({"weight_map": []})", R"({"weight_map": "x"})"}) {
    write_text(folder_ / "model.safetensors.index.json", text);
    EXPECT_THAT(refusal(), HasSubstr("no object \"weight_map\"")) << text;
  }
}

TEST_F(TensorDirectoryTest, PicklesAreRefusedWithAdvice) {
  EXPECT_THAT(refusal(), HasSubstr("has neither model.safetensors nor"));
  for (const char* name : {"pytorch_model.bin", "model.pt", "model.pth"}) {
    const auto path = folder_ / name;
    write_text(path, "\x80\x02}.");
    EXPECT_THROW(TensorDirectory directory(folder_.path()), ConfigError);
    EXPECT_THAT(refusal(), AllOf(HasSubstr("pickles"), HasSubstr("save_pretrained"))) << name;
    std::filesystem::remove(path);
  }
  EXPECT_THROW(TensorDirectory directory(folder_ / "missing"), ConfigError);
}

TEST_F(TensorDirectoryTest, AFolderHoldsWeightsOrNoneOrOthersThatAreNamed) {
  EXPECT_FALSE(holds_weights(folder_.path()));
  write_text(folder_ / "training_args.bin", "");
  EXPECT_FALSE(holds_weights(folder_.path()));
  for (const char* name : {"pytorch_model.bin", "weights.safetensors", "model.fp16.safetensors",
                           "tf_model.h5", "model.gguf", kShard1}) {
    write_text(folder_ / name, "");
    EXPECT_THAT(test::message_of([&] { holds_weights(folder_.path()); }),
                AllOf(HasSubstr(folder_.path().string()), HasSubstr(name)));
    std::filesystem::remove(folder_ / name);
  }
  write_text(folder_ / "model.safetensors", "");
  EXPECT_TRUE(holds_weights(folder_.path()));
}

TEST_F(TensorDirectoryTest, NoFileIsLeftUnread) {
  write_shards();
  write_index(sound_map());
  EXPECT_EQ(refusal(), "nothing was thrown");
  write_text(folder_ / "consolidated.00.safetensors", "");  // Meta's files with the same weights
  EXPECT_EQ(refusal(), "nothing was thrown");
  write_safetensors(folder_ / "model-00003-of-00003.safetensors", {{"d", ScalarType::f32, {4}}});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("model-00003-of-00003.safetensors would not be read"),
                               HasSubstr("index.json does not name it")));
  std::filesystem::remove(folder_ / "model-00003-of-00003.safetensors");
  write_safetensors(folder_ / "model.safetensors", {{"w", ScalarType::f32, {2}}});
  EXPECT_THAT(refusal(), AllOf(HasSubstr(kShard1), HasSubstr("model.safetensors is there")));
}

}  // namespace
}  // namespace colossal::io
