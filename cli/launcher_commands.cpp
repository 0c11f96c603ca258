// `teraio run`, `suggest`, `top` and others: commands in Python. `python -m teraio` parses their
// options; this command finds the interpreter and replaces itself with it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "python.h"

namespace teraio::cli {
namespace {

struct LauncherCommand {
  const char* name;
  const char* description;
};

constexpr LauncherCommand kLauncherCommands[] = {
    {"run", "Train a script within a device budget"},
    {"suggest", "Suggest the options of `teraio run` for a script on this machine"},
    {"dry-run", "Predict the memory and the step time of a script on a device"},
    {"report", "Make a page about a run, or about two, from `teraio run --report`"},
    {"merge-timelines", "Merge timelines of runs and traces of torch.profiler"},
    {"top", "Watch the running jobs of this user on this machine"},
    {"completion", "Print the script that completes `teraio` in a shell"}};

// Replaces this process with `python -m teraio WORDS...`; returns only when that cannot be started.
Status become_launcher(const std::vector<std::string>& words) {
  if (Status status = check_chosen_python(); !status.ok()) return status;
  const std::string python = python_interpreter();
  std::vector<std::string> command = {python, "-m", "teraio"};
  command.insert(command.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(python.c_str(), argv.data());
  return cannot_start_python(python, errno, "has torch and teraio");
}

}  // namespace

void add_launcher_commands(CLI::App& app) {
  for (const LauncherCommand& command : kLauncherCommands)
    app.add_subcommand(command.name, command.description);
}

bool is_launcher_command(std::string_view name) {
  return std::ranges::any_of(kLauncherCommands,
                             [&](const LauncherCommand& command) { return command.name == name; });
}

int launcher_command(int argc, char** argv) {
  const Status status = become_launcher({argv + 1, argv + argc});
  fmt::print(stderr, "teraio: {}\n", status.message());
  return 1;
}

}  // namespace teraio::cli
