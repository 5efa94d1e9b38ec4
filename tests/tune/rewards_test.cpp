#include "colossal/tune/rewards/rewards.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <thread>

#include "colossal/base/error.h"
#include "colossal/tune/rewards/math_answer.h"
#include "colossal/tune/rewards/reward_set.h"

namespace colossal::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

double score_of(const std::string& name, const std::string& completion,
                const nlohmann::json& columns = {}, int64_t tokens = 1) {
  const RewardOptions options{.max_completion_length = 100, .overlong_tokens = 20, .timeout = 5};
  return make_reward_function(name, options)
      ->score({{.columns = &columns, .completion = completion, .tokens = tokens}})
      .front();
}

std::string error_of(const std::string& name, double timeout = 5) {
  const nlohmann::json columns{{"prompt", "p"}};
  try {
    make_reward_function(name, {.timeout = timeout})
        ->score({{&columns, "c", 1}, {&columns, "d", 1}});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Rewards, AccuracyComparesAnswers) {
  const nlohmann::json twelve{{"prompt", "3*4"}, {"solution", "12"}};
  EXPECT_EQ(score_of("accuracy", " 12\n", twelve), 1);
  EXPECT_EQ(score_of("accuracy", "so it is \\boxed{12.0}, as 3 times 4", twelve), 1);
  EXPECT_EQ(score_of("accuracy", "<answer>12</answer>", twelve), 1);
  EXPECT_EQ(score_of("accuracy", "13", twelve), 0);
  EXPECT_EQ(score_of("accuracy", "1,000", {{"answer", 1000}}), 1);
  EXPECT_EQ(score_of("accuracy", "Paris", {{"answer", "Paris"}}), 1);
  EXPECT_TRUE(std::isnan(score_of("accuracy", "12", {{"prompt", "no solution"}})));
  const nlohmann::json third{{"solution", "So it is $\\boxed{\\frac{1}{3}}$."}};
  EXPECT_EQ(score_of("accuracy", "\\boxed{\\frac{1}{3}}", third), 1);
  EXPECT_EQ(score_of("accuracy", "\\boxed{\\frac{1}{2}}", third), 0);
}

TEST(MathAnswers, AreFound) {
  EXPECT_EQ(find_answer(R"(\boxed{1} then \boxed{\frac{1}{3}}.)"), R"(\frac{1}{3})");
  EXPECT_EQ(find_answer(R"(\boxed{ \{1, 2\} })"), R"(\{1, 2\})");
  EXPECT_EQ(find_answer(R"(\boxed{2} and \boxed{cut off)"), "2");
  EXPECT_EQ(find_answer("<answer>1</answer><answer> 2 </answer>"), "2");
  EXPECT_EQ(find_answer(" whole\n"), "whole");
}

TEST(MathAnswers, AreEqualIfTheyMeanTheSame) {
  const std::pair<const char*, const char*> equal[] = {
      {"12", "12.0"},
      {"1,000", "1000"},
      {"1,234,567.50", "1234567.5"},
      {R"(1{,}000)", "1000"},
      {"-0.5", R"(-\frac{1}{2})"},
      {"1/3", R"(\dfrac{1}{3})"},
      {R"(\frac12)", R"(\frac{1}{2})"},
      {R"(\frac12)", "0.5"},
      {"2/4", "1/2"},
      {"1e3", "1000"},
      {".5", "0.50"},
      {"$12$", "12"},
      {R"(\(x+1\))", "x + 1"},
      {R"(\left(3, 4\right))", "(3,4)"},
      {"3, 4", "3,4"},
      {"[0.5, 1]", R"([\frac{1}{2},1])"},
      {"x = 5", "5"},
      {"x = 5", "x=5"},
      {R"(\text{Monday})", "Monday"},
      {R"(5\sqrt2)", R"(5 \sqrt{2})"},
      {"12.", "12"},
      {"12345678901234567890", "12,345,678,901,234,567,890"},
  };
  for (const auto& [a, b] : equal) {
    EXPECT_TRUE(is_same_answer(a, b)) << a << " and " << b;
    EXPECT_TRUE(is_same_answer(b, a)) << b << " and " << a;
  }
  const std::pair<const char*, const char*> different[] = {
      {"3,4", "34"},      {"3,4", "4,3"},
      {"1,00", "100"},    {R"(\frac{1}{3})", R"(\frac{1}{2})"},
      {"1/3", "0.3333"},  {"12", "-12"},
      {"(0,1)", "[0,1]"}, {"12345678901234567890", "12345678901234567891"},
      {"12", "12a"},      {"", "0"},
      {"1/0", "2/0"},     {R"(\frac{)", R"(\frac{1})"},
      {"x = 5", "y = 5"},
  };
  for (const auto& [a, b] : different) EXPECT_FALSE(is_same_answer(a, b)) << a << " and " << b;
}

TEST(Rewards, FormatWantsOneThought) {
  EXPECT_EQ(score_of("format", "<think>a</think>b"), 1);
  EXPECT_EQ(score_of("format", "<think>a<think>b</think>c"), 0);
  EXPECT_EQ(score_of("format", "b"), 0);
}

TEST(Rewards, LengthsAndRepetitionCost) {
  EXPECT_EQ(score_of("length", "", {}, 25), -0.25);
  EXPECT_EQ(score_of("overlong", "", {}, 80), 0);
  EXPECT_EQ(score_of("overlong", "", {}, 90), -0.5);
  EXPECT_EQ(score_of("overlong", "", {}, 101), -1);
  EXPECT_EQ(score_of("repetition", "a b c d"), 0);
  EXPECT_EQ(score_of("repetition", "a a a a a"), 1.0 / 3 - 1);
}

TEST(Rewards, AProgramAnswersLineByLine) {
  const nlohmann::json columns{{"prompt", "p"}, {"weight", 3}};
  const auto reward = make_reward_function(
      "command:sed 's/.*\"completion\":\"x\".*/null/; t; s/.*"
      "\"weight\":\\([0-9]*\\).*/{\"reward\": \\1}/'",
      {.timeout = 5});
  const std::vector<double> found = reward->score({{&columns, "x", 1}, {&columns, "y", 1}});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(std::isnan(found[0]));
  EXPECT_EQ(found[1], 3);
}

// Input and output exceed the capacity of a pipe, and the program reads all input before it
// answers.
TEST(Rewards, AProgramMayTakeItsTime) {
  const nlohmann::json columns{{"prompt", std::string(1000, 'p')}};
  const std::vector<ScoredText> texts(2000, {&columns, std::string(1000, 'c'), 1});
  const std::vector<double> found =
      make_reward_function("command:tac | sed 's/.*/1.5/'", {.timeout = 30})->score(texts);
  EXPECT_EQ(found, std::vector<double>(2000, 1.5));
}

TEST(Rewards, WhatAProgramDoesWrongIsSaid) {
  EXPECT_THAT(error_of("command:exit 3"), HasSubstr("exit code 3"));
  EXPECT_THAT(error_of("command:kill -9 $$"), HasSubstr("signal 9"));
  EXPECT_THAT(error_of("command:echo 1"), HasSubstr("1 lines for 2 completions"));
  EXPECT_THAT(error_of("command:sed 's/.*/good/'"), HasSubstr("not JSON: good"));
  EXPECT_THAT(error_of("command:sed 's/.*/\"good\"/'"), HasSubstr("is not a reward"));
  EXPECT_THAT(error_of("command:sleep 100", 0.2), HasSubstr("in time"));
}

TEST(Rewards, NamesThatAreNoneAreRefused) {
  EXPECT_THAT(error_of("acuracy"), HasSubstr("there is no such reward; use accuracy, format"));
  EXPECT_THAT(error_of("command: "), HasSubstr("no program"));
  EXPECT_THAT(error_of("http://host:port/"), HasSubstr("http://HOST:PORT/PATH"));
}

// A server that answers one request with the given answer.
class Service {
 public:
  explicit Service(const std::string& answer) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    listen(socket_, 1);
    socklen_t size = sizeof address;
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    name_ = fmt::format("http://127.0.0.1:{}/score", ntohs(address.sin_port));
    thread_ = std::thread([this, answer] {
      const int connection = accept(socket_, nullptr, nullptr);
      char buffer[65536];
      const ssize_t count = recv(connection, buffer, sizeof buffer, 0);
      request_.assign(buffer, std::max<ssize_t>(0, count));
      send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
      close(connection);
    });
  }
  ~Service() {
    thread_.join();
    close(socket_);
  }

  const std::string& name() const { return name_; }
  std::string request_;

 private:
  int socket_;
  std::string name_;
  std::thread thread_;
};

TEST(Rewards, AnAddressIsPosted) {
  const nlohmann::json columns{{"prompt", "p"}};
  Service plain(
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"rewards\": [1, null]}");
  const std::vector<double> found = make_reward_function(plain.name(), {.timeout = 5})
                                        ->score({{&columns, "a", 1}, {&columns, "b", 2}});
  EXPECT_EQ(found[0], 1);
  EXPECT_TRUE(std::isnan(found[1]));
  EXPECT_THAT(plain.request_, HasSubstr("POST /score HTTP/1.1"));
  EXPECT_THAT(plain.request_, HasSubstr(R"({"completion":"b","prompt":"p","tokens":2})"));
}

TEST(Rewards, AnAnswerMayComeInChunks) {
  Service chunked(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
      "8\r\n{\"reward\r\n8\r\ns\":[2.5]\r\n1\r\n}\r\n0\r\n\r\n");
  EXPECT_EQ(score_of(chunked.name(), "x"), 2.5);
}

TEST(Rewards, WhatAnAddressDoesWrongIsSaid) {
  {
    Service failing("HTTP/1.1 500 Oh\r\n\r\n");
    EXPECT_THAT(error_of(failing.name()), HasSubstr("HTTP/1.1 500 Oh"));
  }
  {
    Service short_one("HTTP/1.1 200 OK\r\n\r\n{\"rewards\": [1]}");
    EXPECT_THAT(error_of(short_one.name()), HasSubstr("of 2 numbers"));
  }
  EXPECT_THAT(error_of("http://127.0.0.1:1/"), HasSubstr("no server answers at 127.0.0.1:1"));
}

// Rewards that fail are left out, and the run goes on.
TEST(RewardSet, CountsWhatFails) {
  const nlohmann::json columns{{"solution", "c"}};
  RewardSet rewards({"accuracy", "command:exit 1"}, {2, 1}, {.timeout = 5});
  const auto found = rewards.score({{&columns, "c", 1}});
  EXPECT_EQ(found[0][0], 1);
  EXPECT_TRUE(std::isnan(found[0][1]));
  EXPECT_EQ(rewards.total(found[0]), 2);
  EXPECT_TRUE(std::isnan(rewards.total({std::nan(""), std::nan("")})));
  EXPECT_EQ(rewards.failures(), 1);
  rewards.score({{&columns, "a", 1}, {&columns, "b", 1}});
  EXPECT_EQ(rewards.failures(), 3);  // completions without a reward
  EXPECT_THAT(rewards.metric_names(), ElementsAre("accuracy", "exit"));
}

// Neither the text of a line nor an exception that a library throws because of it ends a run.
TEST(RewardSets, SurviveAnyException) {
  RewardSet rewards({"accuracy", "length"}, {}, {.max_completion_length = 2});
  const nlohmann::json no_utf8{{"solution", {"\xff"}}};
  const auto scores = rewards.score({{&no_utf8, "a", 1}, {&no_utf8, "b", 2}});
  EXPECT_TRUE(std::isnan(scores[0][0]));
  EXPECT_EQ(scores[1][1], -1);
  EXPECT_EQ(rewards.failures(), 2);
}

TEST(Rewards, HaveNamesInMetrics) {
  EXPECT_EQ(reward_model_folder("model:/a/b"), "/a/b");
  EXPECT_EQ(reward_model_folder("judge=model:/a/b"), "/a/b");
  EXPECT_EQ(reward_model_folder("command:model:x"), std::nullopt);
  const std::pair<const char*, const char*> names[] = {
      {"model:/a/b/", "b"},
      {"model:c", "c"},
      {"model:runs/judge/step-000060", "judge"},
      {"model:step-000060", "step-000060"},
      {"judge=model:/a/b", "judge"},
      {"accuracy", "accuracy"},
      {"right=accuracy", "right"},
      {"command:bin/judge.sh --fast", "judge.sh"},
      {"command:sh bin/judge.sh", "judge.sh"},
      {"command:env python3 -u judge.py --model=x", "judge.py"},
      {"command:sh -c 'echo 1'", "sh"},
      {"command:exit 1", "exit"},
      {"polite=command:awk '{ print x=1 }'", "polite"},
      {"http://host:1/score?a=b", "host:1/score?a=b"},
  };
  for (const auto& [reward, name] : names) EXPECT_EQ(metric_name(reward), name) << reward;
  EXPECT_EQ(score_of("short=length", "", {}, 25), -0.25);
  EXPECT_TRUE(is_external("polite=command:cat"));
}

}  // namespace
}  // namespace colossal::tune
