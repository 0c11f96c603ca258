// The subcommands of `teraio`; each has a file of its own name.
//
// Each function adds its subcommand with options and help to `app` and sets the callback that does
// the work. A callback that fails prints one line to stderr and throws
// CLI::RuntimeError(exit_code).
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace teraio::cli {

void add_plan_command(CLI::App& app);
void add_simulate_command(CLI::App& app);
void add_explain_command(CLI::App& app);
void add_characterize_command(CLI::App& app);
void add_what_if_command(CLI::App& app);
void add_probe_command(CLI::App& app);
void add_doctor_command(CLI::App& app);

// `teraio run`, `dry-run` and other commands in Python are listed as subcommands, but Python parses
// their words, because CLI11 would interpret "--" and "--help" itself. launcher_command() replaces
// the process with the launcher; it returns an exit code only when the launcher cannot be started.
// Options of `teraio` before the command's name must have been read.
void add_launcher_commands(CLI::App& app);
bool is_launcher_command(std::string_view name);
int launcher_command(int argc, char** argv);

// Parses the command line and runs its command. Returns the exit code: 0, or 1 if the command
// fails, or 2 with one line on stderr if the command line cannot be used.
int run_command_line(CLI::App& app, int argc, char** argv);

// Adds -v to a command: details of failures, and all that is logged, are told.
void add_verbose_option(CLI::App& command);

// Prints "teraio: <message>" to stderr and throws the exit code of the status: 2 for
// kInvalidArgument, else 1. In a verbose process the details follow, with the command line and the
// version; else the message says so where there are details.
[[noreturn]] void fail(const Status& status);

// Returns the value of a result; calls fail() when there is none.
template <typename T>
T value_or_fail(Result<T> result) {
  if (!result.ok()) fail(result.status());
  return std::move(*result);
}

// Parses the value of an option with parse_size(); calls fail() when that fails.
int64_t size_or_fail(std::string_view option, const std::string& text, int64_t whole_bytes = 0);

// Creates the folder for results and its parents; calls fail() when that is not possible.
void make_folder_or_fail(const std::filesystem::path& folder);

}  // namespace teraio::cli
