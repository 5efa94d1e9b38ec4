#include <memory>
#include <utility>

#include "colossal/cli/command.h"
#include "colossal/cli/key_flags.h"
#include "colossal/cli/run_arguments.h"
#include "colossal/io/file.h"
#include "colossal/plan/plan_page.h"
#include "colossal/run/planned_run.h"

namespace colossal::cli {
namespace {

struct PlanArguments {
  RunArguments run;
  std::string cluster;      // a file; empty: the key parallel.cluster
  bool classifies = false;  // whether to plan colossal tune classify, not colossal train
  bool json = false;
  std::string page;  // a file; empty: none
};

void print_plan(const PlanArguments& arguments) {
  GivenConfig given = read_config(arguments.run);
  if (!arguments.cluster.empty()) given.config.parallel.cluster = arguments.cluster;
  const PlannedRun planned =
      plan_run(std::move(given), arguments.run.num_ranks(), arguments.classifies);
  if (!arguments.page.empty()) {
    io::write_file_atomically(arguments.page,
                              plan::page_of(planned.job, planned.json, planned.text));
  }
  fmt::print("{}", arguments.json ? planned.json.dump(2) + "\n" : planned.text);
}

}  // namespace

void add_plan(CLI::App& app, int&) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = app.add_subcommand(
      "plan",
      "Show what a run will cost before it starts: how much each rank sends, stores and computes "
      "per step, and when the ranks of a pipeline wait. This is a dry run: it reads no data, "
      "allocates no tensors and sends nothing");
  add_run_arguments(*command, arguments->run, "Plan for this many ranks in total [1]");
  command
      ->add_option("--cluster", arguments->cluster,
                   "Also predict the time of a step on the machines of this file, which colossal "
                   "check --cluster=FILE writes; the same as --parallel.cluster=FILE")
      ->type_name("FILE");
  command->add_flag("--classify", arguments->classifies,
                    "Of a model that reads images: plan `colossal tune classify`, in place of "
                    "`colossal train`, which reconstructs masked images");
  command->add_flag("--json", arguments->json,
                    "Print one JSON object, with the key names of metrics.jsonl");
  command
      ->add_option("--page", arguments->page,
                   "Also write the plan and the timeline of the pipeline schedule to this file, as "
                   "an HTML page")
      ->type_name("FILE");
  command->callback([arguments, command] {
    arguments->run.flags = key_flags<RunConfig>(*command);
    print_plan(*arguments);
  });
}

}  // namespace colossal::cli
