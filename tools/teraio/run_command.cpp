// `teraio run`: trains a script under TERAIO. The launcher is Python's (`python -m teraio run`),
// which knows the options; this command finds the interpreter and becomes it.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"

namespace teraio::tools {
namespace {

// $TERAIO_PYTHON, else the interpreter that the extension was built for, else the one on the path.
std::string interpreter() {
  const char* chosen = std::getenv("TERAIO_PYTHON");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  const std::string built_for = TERAIO_BUILD_PYTHON;
  if (!built_for.empty() && access(built_for.c_str(), X_OK) == 0) return built_for;
  return "python3";
}

// Becomes `python -m teraio run ARGUMENTS...`; returns only when that cannot be started.
Status become_launcher(const std::vector<std::string>& arguments) {
  const std::string python = interpreter();
  std::vector<std::string> command = {python, "-m", "teraio", "run"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(python.c_str(), argv.data());
  return Status(
      ErrorCode::kNotFound,
      fmt::format("the Python interpreter \"{}\" cannot be started ({}): set TERAIO_PYTHON "
                  "to one that has torch and teraio",
                  python, std::strerror(errno)));
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
