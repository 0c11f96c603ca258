// The `teraio` command.
#include <fmt/format.h>

#include <cstdio>

#include "base/log.h"
#include "base/units.h"
#include "commands.h"
#include "help.h"

namespace teraio::cli {

void fail(const Status& status) {
  fmt::print(stderr, "teraio: {}\n", status.message());
  throw CLI::RuntimeError(status.code() == ErrorCode::kInvalidArgument ? 2 : 1);
}

int64_t size_or_fail(std::string_view option, const std::string& text, int64_t whole_bytes) {
  const Result<int64_t> bytes = parse_size(text, whole_bytes);
  if (!bytes.ok()) fail(bytes.status().with_context(option));
  return *bytes;
}

void make_folder_or_fail(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    fail(Status(ErrorCode::kIoError,
                fmt::format("{}: cannot make this folder: {}", folder.string(), error.message())));
}

}  // namespace teraio::cli

namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 success; 1 the command failed; 2 wrong use, and nothing has run; 130 ended by "
    "Ctrl-C. `teraio run` ends with the code of the script.";

}  // namespace

int main(int argc, char** argv) {
  using namespace teraio::cli;
  teraio::log_to_stderr();  // stdout belongs to the results
  if (is_launcher_command(argc, argv)) return launcher_command(argc, argv);
  CLI::App app{"Trains models that need more memory than the device has.", "teraio"};
  app.set_version_flag("--version", TERAIO_VERSION);
  add_describe_option(app);
  app.formatter(help_formatter());
  app.require_subcommand(1);
  add_launcher_commands(app);
  add_plan_command(app);
  add_simulate_command(app);
  add_compare_command(app);
  add_explain_command(app);
  add_characterize_command(app);
  add_what_if_command(app);
  add_probe_command(app);
  add_doctor_command(app);
  add_bench_storage_command(app);
  add_bench_link_command(app);
  app.footer(kExitCodes);  // subcommands would inherit it
  return run_command_line(app, argc, argv);
}
