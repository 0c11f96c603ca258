// `teraio run`: trains a script under TERAIO. The launcher is Python's (`python -m teraio run`),
// which knows the options; this command finds the interpreter and becomes it.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "python.h"

namespace teraio::tools {
namespace {

// Becomes `python -m teraio run ARGUMENTS...`; returns only when that cannot be started.
Status become_launcher(const std::vector<std::string>& arguments) {
  const std::string python = python_interpreter();
  std::vector<std::string> command = {python, "-m", "teraio", "run"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(python.c_str(), argv.data());
  return cannot_start_python(python, errno, "has torch and teraio");
}

}  // namespace

void add_run_command(CLI::App& app) {
  app.add_subcommand("run", "Train a script within a device budget");
}

bool is_run_command(int argc, char** argv) {
  return argc > 1 && std::string_view(argv[1]) == "run";
}

int run_command(int argc, char** argv) {
  const Status status = become_launcher({argv + 2, argv + argc});
  fmt::print(stderr, "teraio: {}\n", status.message());
  return 1;
}

}  // namespace teraio::tools
