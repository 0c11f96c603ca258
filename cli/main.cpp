// The `teraio` command.
#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/units.h"
#include "commands.h"
#include "help.h"

namespace teraio::cli {

namespace {

// What a report of any failure needs.
void print_circumstances() {
  std::ifstream file("/proc/self/cmdline");
  std::string words{std::istreambuf_iterator<char>(file), {}};
  if (!words.empty()) words.pop_back();
  std::replace(words.begin(), words.end(), '\0', ' ');
  std::error_code unknown;
  utsname system = {};
  uname(&system);
  fmt::print(stderr, "  command: {}\n  working directory: {}\n  version: {} on {} {} {}\n", words,
             std::filesystem::current_path(unknown).string(), TERAIO_VERSION, system.sysname,
             system.release, system.machine);
}

// Python commands that this process starts or becomes are verbose as well.
void make_verbose() {
  set_verbose(true);
  setenv("TERAIO_VERBOSE", "1", 1);
}

bool is_verbose_word(std::string_view word) { return word == "-v" || word == "--verbose"; }

}  // namespace

void add_verbose_option(CLI::App& command) {
  command.add_flag_callback("-v,--verbose", make_verbose,
                            "Print the details of errors and warnings (also TERAIO_VERBOSE=1)");
}

void fail(const Status& status) {
  const bool has_more = !is_verbose() && !status.details().empty();
  fmt::print(stderr, "teraio: {}{}\n", full_text(status),
             has_more ? " (--verbose tells more)" : "");
  if (is_verbose()) print_circumstances();
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
    "Exit codes: 0 success; 1 the command failed; 2 wrong use, nothing has run; 130 Ctrl-C. "
    "`teraio run` ends with the code of the script.";

}  // namespace

int main(int argc, char** argv) {
  using namespace teraio::cli;
  teraio::log_to_stderr();                        // stdout belongs to the results
  while (argc > 2 && is_verbose_word(argv[1])) {  // also in front of a command in Python
    make_verbose();
    std::copy(argv + 2, argv + argc, argv + 1);
    --argc;
  }
  if (argc > 1 && is_launcher_command(argv[1])) return launcher_command(argc, argv);
  CLI::App app{"Trains models that need more memory than the device has.", "teraio"};
  app.set_version_flag("--version", TERAIO_VERSION);
  add_describe_option(app);
  app.formatter(help_formatter());
  app.require_subcommand(1);
  add_launcher_commands(app);
  add_plan_command(app);
  add_simulate_command(app);
  add_explain_command(app);
  add_characterize_command(app);
  add_what_if_command(app);
  add_probe_command(app);
  add_doctor_command(app);
  for (CLI::App* command : app.get_subcommands({}))
    if (!is_launcher_command(command->get_name())) add_verbose_option(*command);
  add_verbose_option(app);
  app.footer(kExitCodes);  // subcommands would inherit it
  return run_command_line(app, argc, argv);
}
