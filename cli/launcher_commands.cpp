// `teraio run`, `suggest`, `dry-run`, `report`, `merge-timelines` and `top`: commands in Python.
// `python -m teraio` parses their options; this command finds the interpreter and replaces itself
// with it.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "python.h"

namespace teraio::cli {
namespace {

// Replaces this process with `python -m teraio WORDS...`; returns only when that cannot be started.
Status become_launcher(const std::vector<std::string>& words) {
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
  app.add_subcommand("run", "Train a script within a device budget");
  app.add_subcommand("suggest", "Suggest how to train a script on this machine: the `run` line");
  app.add_subcommand("dry-run", "Predict the memory and time that a script needs on a device");
  app.add_subcommand("report", "Make a page about a run from what `teraio run --report` wrote");
  app.add_subcommand("merge-timelines",
                     "Merge timelines of runs and traces of torch.profiler into one file");
  app.add_subcommand("top", "Watch the running jobs of this user on this machine");
}

bool is_launcher_command(int argc, char** argv) {
  if (argc < 2) return false;
  const std::string_view name = argv[1];
  return name == "run" || name == "suggest" || name == "dry-run" || name == "report" ||
         name == "merge-timelines" || name == "top";
}

int launcher_command(int argc, char** argv) {
  const Status status = become_launcher({argv + 1, argv + argc});
  fmt::print(stderr, "teraio: {}\n", status.message());
  return 1;
}

}  // namespace teraio::cli
