// The `teraio` command.
#include <fmt/format.h>

#include <cstdio>

#include "commands.h"

namespace teraio::tools {

void fail(const Status& status) {
  fmt::print(stderr, "teraio: {}\n", status.message());
  throw CLI::RuntimeError(status.code() == ErrorCode::kInvalidArgument ? 2 : 1);
}

}  // namespace teraio::tools

int main(int argc, char** argv) {
  using namespace teraio::tools;
  if (is_run_command(argc, argv)) return run_command(argc, argv);
  CLI::App app{"Trains models that need more memory than the device has.", "teraio"};
  app.set_version_flag("--version", TERAIO_VERSION);
  app.require_subcommand(1);
  add_run_command(app);
  add_plan_command(app);
  add_simulate_command(app);
  add_compare_command(app);
  add_explain_command(app);
  add_probe_command(app);
  add_doctor_command(app);
  add_bench_storage_command(app);
  CLI11_PARSE(app, argc, argv);
  return 0;
}
