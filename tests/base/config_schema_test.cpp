#include "colossal/base/config_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "tests/base/write_file.h"
#include "tests/support/temporary_directory.h"

namespace colossal {

enum class Mode { one_dim, two_dim };
std::vector<std::pair<std::string, Mode>> config_names(Mode) {
  return {{"1d", Mode::one_dim}, {"2d", Mode::two_dim}};
}

namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using test::TemporaryDirectory;
using test::write_file;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

// Declares a key of each type, as a program does.
class Schema : public testing::Test {
 protected:
  Schema() {
    schema.add("train.steps", &steps, "optimizer updates in all, resumed ones included",
               {.unit = "steps", .minimum = 1});
    schema.add("train.seed", &seed, "of everything random");
    schema.add("train.threads", &threads, "of each rank", {.minimum = 1, .maximum = 1024});
    schema.add("optimizer.learning_rate", &learning_rate, "at its highest", {.minimum = 0});
    schema.add("optimizer.betas", &betas, "of the moments", {.minimum = 0, .maximum = 1});
    schema.add("parallel.backend", &backend, "what carries collectives",
               {.choices = {"auto", "gloo", "nccl"}});
    schema.add("parallel.tp_mode", &mode, "how tensors are cut");
    schema.add("parallel.dp", &dp, "replicas", {.minimum = 1, .unset = "inferred"});
    schema.add("parallel.timeout", &timeout, "of each collective", {.minimum = 0.5});
    schema.add("memory.device_budget", &budget, "bytes on the device", {.unset = "all"});
    schema.add("memory.recompute", &recompute, "which blocks",
               {.minimum = 0, .choices = {"none", "full"}});
    schema.add("memory.offload", &offload, "where to", {.choices = {"none", "host"}});
    schema.add("data.train", &train, "globs");
    schema.add("log.report", &report, "write report.html");
    schema.add("log.columns", &columns, "of the table", {.unset = "all"});
    schema.add("model.preset", &preset, "a size by name");
    schema.open_section("model", &overrides, "any field of config.json", &places);
  }

  void read(const std::string& text) { schema.read_file(write_file(folder / "run.toml", text)); }
  // Returns the error's message without the folder's path.
  std::string read_error(const std::string& text) {
    const std::string error = error_of([&] { read(text); });
    const std::string prefix = folder.path().string() + "/";
    return error.starts_with(prefix) ? error.substr(prefix.size()) : error;
  }
  std::string set_error(const std::string& key, const std::string& text) {
    return error_of([&] { schema.set(key, text); });
  }

  TemporaryDirectory folder;
  int64_t steps = 1000;
  int64_t seed = 0;
  int threads = 2;
  double learning_rate = 3e-4;
  std::vector<double> betas{0.9, 0.95};
  std::string backend = "auto";
  Mode mode = Mode::one_dim;
  std::optional<int> dp;
  milliseconds timeout{300'000};
  std::optional<ByteSize> budget;
  std::variant<int64_t, std::string> recompute = "none";
  std::variant<std::map<std::string, double>, std::string> offload = "none";
  std::vector<std::string> train;
  bool report = true;
  std::optional<std::vector<std::string>> columns;
  std::string preset;
  json overrides;
  std::map<std::string, std::string> places;
  ConfigSchema schema;
};

TEST_F(Schema, ReadsEachTypeFromAFile) {
  read(R"([train]
steps = 20
threads = 4
[optimizer]
learning_rate = 1      # a whole number does for a number
betas = [0.8, 0.9]
[parallel]
backend = "gloo"
tp_mode = "2d"
dp = 3
timeout = "5m"
[memory]
device_budget = "12GiB"
recompute = 3
offload = {host = 0.5}
[data]
train = ["a/*.py", "b.py"]
[log]
report = false
)");
  EXPECT_EQ(steps, 20);
  EXPECT_EQ(threads, 4);
  EXPECT_EQ(learning_rate, 1);
  EXPECT_THAT(betas, ElementsAre(0.8, 0.9));
  EXPECT_EQ(backend, "gloo");
  EXPECT_EQ(mode, Mode::two_dim);
  EXPECT_EQ(dp, 3);
  EXPECT_EQ(timeout, milliseconds(300'000));
  EXPECT_EQ(budget, ByteSize{int64_t{12} << 30});
  EXPECT_EQ(std::get<int64_t>(recompute), 3);
  EXPECT_EQ((std::get<std::map<std::string, double>>(offload)),
            (std::map<std::string, double>{{"host", 0.5}}));
  EXPECT_THAT(train, ElementsAre("a/*.py", "b.py"));
  EXPECT_FALSE(report);
  EXPECT_EQ(seed, 0);
}

TEST_F(Schema, ReadsEachTypeFromAFlag) {
  for (const char* flag :
       {"--train.steps=20", "--train.seed=-1", "--train.threads=4",
        "--optimizer.learning_rate=1e-3", "--optimizer.betas=0.8, 0.9", "--parallel.backend=gloo",
        "--parallel.tp_mode=2d", "--parallel.dp=3", "--parallel.timeout=250.5",
        "--memory.device_budget=64KiB", "--memory.recompute=full", "--memory.offload={host=0.5}",
        "--data.train=a,b c", "--log.report=false", "--model.preset=gpt2=tiny"}) {
    schema.set_flag(flag);
  }
  EXPECT_EQ(steps, 20);
  EXPECT_EQ(seed, -1);
  EXPECT_EQ(threads, 4);
  EXPECT_EQ(learning_rate, 1e-3);
  EXPECT_THAT(betas, ElementsAre(0.8, 0.9));
  EXPECT_EQ(backend, "gloo");
  EXPECT_EQ(mode, Mode::two_dim);
  EXPECT_EQ(dp, 3);
  EXPECT_EQ(timeout, milliseconds(250'500));
  EXPECT_EQ(budget, ByteSize{65'536});
  EXPECT_EQ(std::get<std::string>(recompute), "full");
  EXPECT_EQ((std::get<std::map<std::string, double>>(offload).at("host")), 0.5);
  EXPECT_THAT(train, ElementsAre("a", "b c"));
  EXPECT_FALSE(report);
  EXPECT_EQ(preset, "gpt2=tiny");
}

TEST_F(Schema, ListsMayBeTomlAndEmpty) {
  schema.set("data.train", R"(["a,b", "c"])");
  EXPECT_THAT(train, ElementsAre("a,b", "c"));
  schema.set("data.train", "");
  EXPECT_TRUE(train.empty());
}

TEST_F(Schema, TextIsTakenAsItIs) {
  schema.set("model.preset", "12");
  EXPECT_EQ(preset, "12");
  schema.set("data.train", "12,true");
  EXPECT_THAT(train, ElementsAre("12", "true"));
}

TEST_F(Schema, FlagsWinAndOfTwoTheLast) {
  schema.set("train.steps", "5");
  schema.set("train.steps", "6");
  read("[train]\nsteps = 20\nseed = 1\n");
  EXPECT_EQ(steps, 6);
  EXPECT_EQ(seed, 1);
  schema.set("train.seed", "2");
  EXPECT_EQ(seed, 2);
}

TEST_F(Schema, OfTwoFilesTheLaterCounts) {
  read("[train]\nsteps = 20\nseed = 1\n");
  read("[train]\nsteps = 30\n");
  EXPECT_EQ(steps, 30);
  EXPECT_EQ(seed, 1);
}

TEST_F(Schema, AWordLeavesAnOptionalToTheProgram) {
  schema.set("parallel.dp", "3");
  schema.set("parallel.dp", "inferred");
  EXPECT_FALSE(dp);
  schema.set("log.columns", "loss,step");
  EXPECT_EQ(columns->size(), 2u);
  schema.set("log.columns", "all");
  EXPECT_FALSE(columns);
  read("[memory]\ndevice_budget = \"all\"\n");
  EXPECT_FALSE(budget);
}

TEST_F(Schema, UnknownKeysNameTheNearest) {
  EXPECT_EQ(read_error("[train]\nstpes = 1\n"),
            "run.toml:2: train.stpes: no such key; nearest: train.steps");
  EXPECT_EQ(read_error("[train]\nlearning_rate = 1\n"),
            "run.toml:2: train.learning_rate: no such key; nearest: optimizer.learning_rate");
  EXPECT_EQ(read_error("[optimizer]\nseed = 1\n"),
            "run.toml:2: optimizer.seed: no such key; nearest: train.seed");
  EXPECT_EQ(read_error("[trian]\nseed = 1\n"),
            "run.toml:2: trian.seed: no such key; nearest: train.seed");
  EXPECT_EQ(read_error("steps = 1\n"), "run.toml:1: steps: no such key; nearest: train.steps");
  EXPECT_EQ(read_error("[dat]\n"), "run.toml:1: [dat]: no such section; nearest: [data]");
  EXPECT_EQ(set_error("parallel.db", "2"), "--parallel.db=2: no such key; nearest: --parallel.dp");
}

TEST_F(Schema, TheFirstMistakeOfTheFileIsTold) {
  EXPECT_THAT(read_error("[train]\nstpes = 1\n[data]\ntrian = 1\n"), HasSubstr("train.stpes"));
  EXPECT_THAT(read_error("[data]\ntrian = 1\n[train]\nstpes = 1\n"), HasSubstr("data.trian"));
}

TEST_F(Schema, WrongTypesSayWhatWasFoundAndWhatIsExpected) {
  EXPECT_EQ(read_error("\n[train]\nsteps = \"many\"\n"),
            "run.toml:3: train.steps = \"many\": found a string, expected a whole number of steps "
            "from 1, "
            "such as train.steps = 1000");
  EXPECT_EQ(set_error("train.steps", "many"),
            "--train.steps=many: found a string, expected a whole number of steps from 1, such as "
            "train.steps = 1000");
  EXPECT_EQ(read_error("[train]\nsteps = 1.5\n"),
            "run.toml:2: train.steps = 1.5: found a number with a fraction, expected a whole "
            "number of steps from 1, such as train.steps = 1000");
  EXPECT_EQ(
      read_error("[data]\ntrain = \"a.py\"\n"),
      "run.toml:2: data.train = \"a.py\": found a string, expected a list of strings, such as "
      "data.train = [\"name\", \"name\"]");
  EXPECT_EQ(read_error("[data]\ntrain = [1]\n"),
            "run.toml:2: data.train = [1]: found a list, expected a list of strings, such as "
            "data.train = [\"name\", \"name\"]");
  EXPECT_EQ(read_error("[parallel]\ndp = true\n"),
            "run.toml:2: parallel.dp = true: found true or false, expected a whole number from 1, "
            "such as parallel.dp = 100; if the key is left out: inferred");
  EXPECT_EQ(set_error("parallel.timeout", "soon"),
            "--parallel.timeout=soon: found a string, expected a duration from 500ms, such as "
            "parallel.timeout = \"300s\"");
  EXPECT_THAT(set_error("memory.device_budget", "12G"),
              EndsWith("expected a size, such as memory.device_budget = \"12GiB\"; if the key is "
                       "left out: all"));
  EXPECT_THAT(set_error("memory.recompute", "1.5"),
              HasSubstr("expected a whole number from 0, or one of: none, full, such"));
  EXPECT_THAT(set_error("log.report", "yes"), HasSubstr("expected true or false"));
  EXPECT_EQ(steps, 1000);
}

TEST_F(Schema, ValuesOutOfRangeSayTheRange) {
  EXPECT_EQ(read_error("[train]\nsteps = 0\n"), "run.toml:2: train.steps = 0: must be at least 1");
  EXPECT_EQ(set_error("train.threads", "1025"), "--train.threads=1025: must be between 1 and 1024");
  EXPECT_EQ(set_error("optimizer.betas", "0.9,1.5"),
            "--optimizer.betas=[0.9, 1.5]: must be between 0 and 1");
  EXPECT_EQ(set_error("parallel.timeout", "250ms"),
            "--parallel.timeout=250ms: must be at least 500ms");
  EXPECT_EQ(set_error("parallel.dp", "99999999999"),
            "--parallel.dp=99999999999: must be between -2147483648 and 2147483647");
  EXPECT_EQ(set_error("optimizer.learning_rate", "nan"),
            "--optimizer.learning_rate=nan: must be finite");
  EXPECT_EQ(set_error("memory.recompute", "-1"), "--memory.recompute=-1: must be at least 0");
  EXPECT_EQ(threads, 2);
}

TEST_F(Schema, UnknownWordsNameTheChoices) {
  EXPECT_EQ(read_error("[parallel]\nbackend = \"glo\"\n"),
            "run.toml:2: parallel.backend = \"glo\": must be one of \"auto\", \"gloo\", \"nccl\"; "
            "nearest: \"gloo\"");
  EXPECT_EQ(set_error("parallel.tp_mode", "3d"),
            "--parallel.tp_mode=3d: must be one of \"1d\", \"2d\"; nearest: \"1d\"");
  EXPECT_EQ(set_error("memory.recompute", "ful"),
            "--memory.recompute=ful: must be one of \"none\", \"full\"; nearest: \"full\"");
}

TEST_F(Schema, AFileIsCheckedEvenWhereAFlagWins) {
  schema.set("train.steps", "5");
  EXPECT_THAT(read_error("[train]\nsteps = 0\n"), HasSubstr("must be at least 1"));
  EXPECT_EQ(steps, 5);
}

TEST_F(Schema, SectionsAreNoValuesAndValuesNoSections) {
  EXPECT_EQ(read_error("train = 3\n"),
            "run.toml:1: train = 3: this is a section, not a key; write [train]");
  EXPECT_EQ(read_error("[train.steps]\nx = 1\n"),
            "run.toml:2: train.steps.x: no such key; nearest: train.steps");
  EXPECT_EQ(read_error("[train]\n"), "no error");
}

TEST_F(Schema, FlagsWithoutAValueAreExplained) {
  EXPECT_EQ(error_of([&] { schema.set_flag("--train.step"); }),
            "unknown option --train.step; settings are written --section.key=value; nearest: "
            "--train.steps=VALUE");
  EXPECT_EQ(error_of([&] { schema.set_flag("--train.steps"); }),
            "--train.steps: the value is missing; write --train.steps=VALUE");
  EXPECT_EQ(error_of([&] { schema.set_flag("r2.toml"); }),
            "unexpected argument r2.toml: give one path only; settings are written "
            "--section.key=value");
  EXPECT_THAT(error_of([&] { schema.set_flag("-"); }), HasSubstr("unknown option -; "));
}

TEST_F(Schema, LongValuesAreCutInMessages) {
  const std::string error = set_error("train.steps", std::string(10'000, 'x'));
  EXPECT_LT(error.size(), 200u);
  EXPECT_THAT(error, HasSubstr("xxx...: found a string"));
}

TEST_F(Schema, OpenSectionsTakeAnyOtherKey) {
  schema.set("model.n_layer", "6");
  read(R"([model]
preset = "gpt2-tiny"
n_layer = 4
activation = "gelu"
[model.rope]
factor = 8.0
)");
  schema.set("model.rope.kind", "linear");
  EXPECT_EQ(preset, "gpt2-tiny");
  EXPECT_EQ(overrides, json({{"n_layer", 6},
                             {"activation", "gelu"},
                             {"rope", {{"factor", 8.0}, {"kind", "linear"}}}}));
  EXPECT_EQ(places.at("n_layer"), "--model.n_layer=6");
  EXPECT_THAT(places.at("activation"), EndsWith("run.toml:4: model.activation = \"gelu\""));
  EXPECT_EQ(places.at("rope.kind"), "--model.rope.kind=linear");
}

TEST_F(Schema, ResolvedValuesAsJson) {
  schema.set("train.steps", "5");
  schema.set("memory.device_budget", "1GiB");
  schema.set("model.n_layer", "6");
  EXPECT_EQ(schema.to_json(), json::parse(R"({
    "train": {"steps": 5, "seed": 0, "threads": 2},
    "optimizer": {"learning_rate": 3e-4, "betas": [0.9, 0.95]},
    "parallel": {"backend": "auto", "tp_mode": "1d", "dp": null, "timeout": "300s"},
    "memory": {"device_budget": "1GiB", "recompute": "none", "offload": "none"},
    "data": {"train": []},
    "log": {"report": true, "columns": null},
    "model": {"preset": "", "n_layer": 6}
  })"));
}

TEST_F(Schema, ValuesSayTheirSource) {
  read("[train]\nseed = 4\n[model]\nn_layer = 6\n");
  schema.set("parallel.tp_mode", "2d");
  std::vector<std::string> lines;
  for (const ConfigSchema::Value& value : schema.values()) {
    lines.push_back(
        fmt::format("{}={} {}", value.key, value.text, config_source_name(value.source)));
  }
  EXPECT_THAT(lines, testing::IsSupersetOf(
                         {"train.steps=1000 default", "train.seed=4 file",
                          "parallel.tp_mode=\"2d\" flag", "parallel.dp=inferred default",
                          "optimizer.betas=[0.9, 0.95] default", "model.n_layer=6 file"}));
  EXPECT_EQ(lines.size(), 17u);
  EXPECT_EQ(lines.front(), "train.steps=1000 default");
  EXPECT_EQ(lines.back(), "model.n_layer=6 file");
}

TEST_F(Schema, HelpListsEveryKeyIn100Columns) {
  schema.set("train.steps", "5");  // does not change the default
  const std::string help = schema.help();
  EXPECT_THAT(help, HasSubstr(R"([train]
  steps = 1000 (a whole number of steps from 1)
      optimizer updates in all, resumed ones included
  seed = 0 (a whole number)
      of everything random
)"));
  EXPECT_THAT(help, HasSubstr("  backend = \"auto\" (one of: auto, gloo, nccl)\n"));
  EXPECT_THAT(help, HasSubstr("  timeout = \"300s\" (a duration from 500ms)\n"));
  EXPECT_THAT(help, HasSubstr("  tp_mode = \"1d\" (one of: 1d, 2d)\n"));
  EXPECT_THAT(help, HasSubstr("  dp (a whole number from 1; left out: inferred)\n"));
  EXPECT_THAT(help,
              HasSubstr("  recompute = \"none\" (a whole number from 0, or one of: none, full)\n"));
  EXPECT_THAT(help, HasSubstr("  ... any field of config.json\n"));
  std::size_t begin = 0;
  for (std::size_t end; (end = help.find('\n', begin)) != std::string::npos; begin = end + 1) {
    EXPECT_LE(end - begin, 100u) << help.substr(begin, end - begin);
  }
  EXPECT_EQ(begin, help.size());
}

TEST(SchemaDeclaration, MistakesOfTheProgramAreCaught) {
  int64_t value = 0;
  ConfigSchema schema;
  schema.add("a.b", &value, "");
  EXPECT_THROW(schema.add("a.b", &value, ""), InternalError);
  EXPECT_THROW(schema.add("plain", &value, ""), InternalError);
  EXPECT_THROW(schema.add("a.c", &value, "", {.minimum = 1}), InternalError);
}

}  // namespace
}  // namespace colossal
