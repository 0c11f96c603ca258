// `teraio simulate`: predicts the execution of a plan on a machine.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/units.h"
#include "commands.h"
#include "inputs.h"
#include "run_text.h"
#include "simulate/run_file.h"
#include "simulate/simulator.h"

namespace teraio::cli {
namespace {

struct SimulateCommand {
  explicit SimulateCommand(CLI::App& command) : inputs(command) {
    inputs.add_write_budget(command);
    command.add_option("--plan", plan, "The plan to execute")->required();
    command.add_flag("--json", json, "Print one JSON object");
    command.add_option("--timeline", timeline,
                       "Write Chrome trace events to this file, for ui.perfetto.dev");
  }
  void run() const;

  InputOptions inputs;
  std::string plan;
  std::string timeline;
  bool json = false;
};

std::string text_of(const teraio::simulate::Run& run) {
  std::string text = step_text(run);
  text += fmt::format("stalled {}", format_duration(run.stall_ns));
  for (const auto& [cause, stall_ns] : run.stall_by_cause_ns)
    if (stall_ns > 0) text += fmt::format(", {} for {}", format_duration(stall_ns), cause);
  return text + "\n\n" + traffic_text(run);
}

void SimulateCommand::run() const {
  const Inputs given = inputs.read();
  const Result<plan::Plan> read = plan::read_plan(plan, given.trace);
  if (!read.ok()) fail(read.status());
  const Result<teraio::simulate::Run> run =
      simulate::simulate(given.trace, given.hardware, given.limits, *read);
  if (!run.ok()) fail(run.status().with_context(plan));
  if (!timeline.empty())
    if (const Status written = write_timeline(*run, given.trace, timeline); !written.ok())
      fail(written);
  fmt::print("{}", json ? run_json(*run) : text_of(*run));
}

}  // namespace

void add_simulate_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("simulate", "Predict the execution of a plan on a machine");
  auto options = std::make_shared<SimulateCommand>(*command);
  command->callback([options] { options->run(); });
}

}  // namespace teraio::cli
