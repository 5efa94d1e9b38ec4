#include "colossal/report/run_report.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

#include "colossal/base/error.h"
#include "colossal/report/headline.h"
#include "tests/report/files.h"
#include "tests/report/python.h"
#include "tests/support/temporary_directory.h"

namespace colossal::report {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::Pair;

// Returns plausible metrics of a run on two ranks, with reproducible noise.
std::vector<StepMetrics> plausible_metrics(int num_steps) {
  std::vector<StepMetrics> metrics;
  for (int step = 1; step <= num_steps; ++step) {
    const double noise = std::sin(12.9898 * step) * std::cos(78.233 * step);
    const double progress = static_cast<double>(step) / num_steps;
    StepMetrics one;
    one.step = step;
    one.loss = 1.55 + 4.7 * std::exp(-7 * progress) + 0.08 * noise;
    if (step % 50 == 0) one.validation_loss = 1.62 + 4.7 * std::exp(-7 * progress);
    one.grad_norm = 0.35 + 3 * std::exp(-15 * progress) + 0.1 * std::abs(noise);
    one.learning_rate =
        step <= 20 ? 6e-4 * step / 20 : 3e-4 * (1 + std::cos(std::numbers::pi * progress));
    one.tokens = 8192;
    one.step_seconds = step == 1 ? 1.9 : 0.72 + 0.03 * noise + (step % 97 == 0 ? 0.3 : 0.0);
    one.tokens_per_second = one.tokens / one.step_seconds;
    one.model_flops_utilization = 0.41 * 0.72 / one.step_seconds;
    one.memory_peak_bytes = 6.1e8 + 5e7 * std::min(1.0, step / 30.0);
    one.memory_by_kind = {{"activations", 300.0 * (1 << 20)}, {"parameters", 100.0 * (1 << 20)}};
    one.memory_at_peak = 400.0 * (1 << 20) + (step == 7 ? 1 : 0);
    one.memory_base_bytes = 110.0 * (1 << 20);
    one.tiers["host"] = {.at_rest = 64.0 * (1 << 20),
                         .moved = {{"gradients", {.to = 32.0 * (1 << 20), .from = 0}}}};
    one.bytes_sent = {{"dp", 2.11e7}, {"dp+pp+sp+tp", 56}};
    one.skipped = step == 134;
    metrics.push_back(one);
  }
  return metrics;
}

RunReport plausible_report() {
  RunReport report;
  report.title = "gpt2-tiny on the Python standard library";
  report.metrics = plausible_metrics(500);
  report.step_memory = {{"parameters", {0, 10, 20}, {1e8, 1e8, 1e8}},
                        {"activations", {0, 10, 20}, {0, 3e8, 0}}};
  report.configuration = {{"model", "preset", "gpt2-tiny", "file"},
                          {"data", "train", "[\"/usr/lib/python3.11/**/*.py\"]", "file"},
                          {"data", "sequence_length", "256", "flag"},
                          {"data", "seed", "0", "default"},
                          {"parallel", "dp", "2", "inferred"},
                          {"parallel", "tp", "1", "default"},
                          {"parallel", "zero", "1", "default"},
                          {"precision", "compute", "bf16", "auto"},
                          {"optimizer", "name", "adamw", "default"},
                          {"optimizer", "betas", "[0.9, 0.95]", "default"},
                          {"optimizer", "learning_rate", "6e-4", "file"},
                          {"train", "steps", "500", "file"},
                          {"train", "global_batch", "32", "file"}};
  report.machine = {{"Processor", "AMD EPYC 9B14, 2 cores"},
                    {"Memory", "31.3 GiB"},
                    {"GEMM rate, bf16", "198 GFLOP/s a core"},
                    {"LibTorch", "2.13.0+cpu"}};
  report.model = {{"Parameters", "3,553,280"}, {"Layers", "4"}, {"Hidden size", "256"}};
  report.samples = {{"def main(", "argv=None):\n    return 0\n"}, {"import ", "os"}};
  report.samples_step = 400;
  return report;
}

struct WrittenPage {
  std::string html;
  std::string text;  // the visible text; extracting it has checked the page's form
};

WrittenPage written(const RunReport& report) {
  const test::TemporaryDirectory scratch;
  write_run_report(scratch / "report.html", report);
  return {read_file(scratch / "report.html"), run_python("check_html.py", scratch / "report.html")};
}

TEST(RunReport, HoldsWhatTheRunWas) {
  const WrittenPage page = written(plausible_report());
  for (const char* expected : {"gpt2-tiny on the Python standard library",
                               "500 steps, 4,096,000 tokens.",
                               "1 skipped, without an update: 134.",
                               "Final loss",
                               "Validation loss",
                               "Tokens per second",
                               "Utilisation",
                               "Peak memory",
                               "Sent a step 20.1 MiB dp 20.1 MiB, dp+pp+sp+tp 56 B",
                               "Time in steps",
                               "Gradient norm",
                               "Learning rate",
                               "Throughput",
                               "Bytes sent a step",
                               "Memory over a step",
                               "activations 300 MiB, 75.0% parameters 100 MiB, 25.0%",
                               "tensors in all 400 MiB at step 7",
                               "resident before the model 110 MiB",
                               "host, gradients a step 32.0 MiB to it, 0 B from it",
                               "sequence_length 256 flag",
                               "AMD EPYC 9B14",
                               "Parameters 3,553,280",
                               "Samples after step 400",
                               "values at the peak parameters 95.4 MiB activations 286 MiB",
                               "def main( argv=None):",
                               "import os"}) {
    EXPECT_THAT(page.text, HasSubstr(expected));
  }
  EXPECT_LT(page.html.size(), 300'000u);
}

// The second of three blocks has no experts.
TEST(RunReport, ShowsHowBusyExpertsWere) {
  RunReport report = plausible_report();
  EXPECT_THAT(written(report).text, Not(HasSubstr("Rows of experts")));
  report.expert_rows = {{100, 300, 0, 0}, {}, {50, 50, 50, 50}};
  const WrittenPage page = written(report);
  for (const char* expected :
       {"Rows of experts", "from block 0 down, a column for each of 4 experts",
        "block 0, expert 1: 300 rows, 3.00 of the mean", "block 2, expert 3: 50 rows, 1.00 of"}) {
    EXPECT_THAT(page.text, HasSubstr(expected));
  }
  report.expert_rows.assign(61, std::vector<int64_t>(256, 7));
  EXPECT_LT(written(report).html.size(), 600'000u);
}

TEST(RunReport, ShowsSamplingBesideUpdatesAndStaleness) {
  RunReport report = plausible_report();
  EXPECT_THAT(written(report).text, Not(HasSubstr("Staleness")));
  for (StepMetrics& step : report.metrics) {
    step.task_metrics = {{"sampling/seconds", 0.5},
                         {"sampling/overlapped_seconds", 0.4},
                         {"staleness/0", 0.25},
                         {"staleness/1", 0.75}};
  }
  const WrittenPage page = written(report);
  for (const char* expected :
       {"while passes ran", "Staleness", "shares of the tokens learned from, by generations"}) {
    EXPECT_THAT(page.text, HasSubstr(expected));
  }
}

// A run that learns from rewards shows these before its loss; pairs show margins after it.
TEST(RunReport, ShowsWhatAMethodOfTuningIsAbout) {
  RunReport report = plausible_report();
  EXPECT_THAT(written(report).text, Not(HasSubstr("Reward")));
  for (StepMetrics& step : report.metrics) {
    step.task_metrics = {{"reward", 0.001 * static_cast<double>(step.step)},
                         {"rewards/polite/mean", 0.5},
                         {"rewards/length/mean", -0.1},
                         {"rewards/failures", 0},
                         {"kl", 0.01},
                         {"entropy", 1.5},
                         {"completions/mean_length", 24},
                         {"completions/clipped_ratio", 0.25},
                         {"clip_ratio/low_mean", 0},
                         {"clip_ratio/high_mean", 0}};
  }
  const std::string online = written(report).text;
  for (const char* expected : {"mean of the sampled completions", "polite", "KL divergence",
                               "Entropy", "Length of completions", "Cut off"}) {
    EXPECT_THAT(online, HasSubstr(expected));
  }
  EXPECT_LT(online.find("mean of the sampled completions"),
            online.find("mean over the global batch"));
  EXPECT_THAT(online, Not(HasSubstr("Rewards that failed")));
  EXPECT_THAT(online, Not(HasSubstr("Clipped")));
  EXPECT_EQ(headlines(report.metrics).front().label, "Reward");
  EXPECT_EQ(headlines(report.metrics).front().value, "0.5000");
  for (StepMetrics& step : report.metrics) {
    step.task_metrics = {{"rewards/chosen", 0.3},  {"rewards/rejected", -0.5},
                         {"rewards/margins", 0.8}, {"rewards/accuracies", 0.9},
                         {"logps/chosen", -20},    {"logps/rejected", -40}};
  }
  const std::string pairs = written(report).text;
  for (const char* expected : {"Rewards of pairs", "Margin", "Accuracy", "Log-probability"}) {
    EXPECT_THAT(pairs, HasSubstr(expected));
  }
  EXPECT_LT(pairs.find("mean over the global batch"), pairs.find("Rewards of pairs"));
}

TEST(RunReport, FetchesNothing) {
  const std::string html = written(plausible_report()).html;
  EXPECT_THAT(html, Not(HasSubstr("http://")));
  EXPECT_THAT(html, Not(HasSubstr("https://")));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
}

TEST(RunReport, FromALogOfOneStepOrNone) {
  RunReport report;
  report.title = "short";
  EXPECT_THAT(written(report).text, HasSubstr("No steps yet."));
  report.metrics = plausible_metrics(1);
  EXPECT_THAT(written(report).text, HasSubstr("1 step, 8,192 tokens."));
  report.metrics = {StepMetrics{.step = 3}};
  EXPECT_THAT(written(report).html, Not(HasSubstr("<figure")));
  EXPECT_THAT(written(report).html, Not(HasSubstr("Memory")));
}

// A browser shows them: they are in the page, and its policy lets them in.
TEST(RunReport, PicturesAreInThePage) {
  RunReport report = plausible_report();
  report.pictures = {{"first", "a cat", false}, {"second", "a <dog>", true}};
  const WrittenPage page = written(report);
  EXPECT_THAT(page.html, HasSubstr("img-src data:"));
  EXPECT_THAT(page.html,
              HasSubstr("<figure><img alt=\"\" src=\"data:image/png;base64,Zmlyc3Q=\">"));
  EXPECT_THAT(page.html, HasSubstr("<figure class=\"wrong\">"));
  EXPECT_THAT(page.text, HasSubstr("a <dog>"));
}

TEST(RunReport, CountsImagesOfARunThatLearnsFromThem) {
  RunReport report;
  report.metrics = {StepMetrics{.step = 1, .loss = 2, .tokens = 640}};
  report.metrics[0].tokens_per_second = 320;
  report.metrics[0].images = 10;
  report.metrics[0].images_per_second = 5;
  report.metrics[0].validation_loss = 1;
  const std::string text = written(report).text;
  EXPECT_THAT(text, HasSubstr("1 step, 10 images."));
  EXPECT_THAT(text, HasSubstr("Images per second"));
  EXPECT_THAT(text, Not(HasSubstr("perplexity")));
  EXPECT_THAT(text, Not(HasSubstr("Tokens per second")));
}

TEST(RunReport, HostileTextStaysText) {
  const std::string hostile =
      "</script><script>alert('x')</script><img src=x onerror=\"y\">\xFF\x01";
  RunReport report = plausible_report();
  report.title = hostile;
  report.samples = {{hostile, hostile}};
  report.configuration.push_back({hostile, hostile, hostile, hostile});
  report.machine.push_back({hostile, hostile});
  report.model.push_back({hostile, hostile});
  report.metrics.back().bytes_sent[hostile] = 1e6;
  const WrittenPage page = written(report);
  EXPECT_THAT(page.html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page.html, Not(HasSubstr("<img")));
  EXPECT_THAT(page.text, HasSubstr("</script><script>alert('x')</script><img src=x"));
}

TEST(RunReport, ADirectoryThatIsNotThere) {
  EXPECT_THROW(write_run_report("/nowhere/report.html", plausible_report()), IoError);
}

TEST(Headlines, AreOfTheWholeRun) {
  StepMetrics first{.step = 1, .loss = 6.24}, second{.step = 2, .loss = 2.5};
  first.validation_loss = 2.0;
  second.validation_loss = 2.25;
  first.tokens_per_second = 100;
  second.tokens_per_second = 300;
  first.memory_peak_bytes = 3e9;
  second.memory_peak_bytes = 2e9;
  first.step_seconds = 30;
  second.step_seconds = 90;
  const StepMetrics steps[] = {first, second};
  std::map<std::string, std::pair<std::string, std::string>> found;
  for (const Headline& one : headlines(steps)) found[one.label] = {one.value, one.note};
  EXPECT_THAT(found["Final loss"], Pair("2.500", "6.240 at step 1"));
  EXPECT_THAT(found["Validation loss"], Pair("2.250", "best 2.000 at step 1"));
  EXPECT_EQ(found["Tokens per second"].first, "200");
  EXPECT_EQ(found["Peak memory"].first, "2.79 GiB");
  EXPECT_THAT(found["Time in steps"], Pair("2m00s", "1m00s a step"));
  EXPECT_EQ(found.count("Utilisation"), 0u);
}

TEST(Median, OfOddEvenAndNone) {
  EXPECT_EQ(median({3, 1, NAN, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_TRUE(std::isnan(median({NAN})));
}

}  // namespace
}  // namespace colossal::report
