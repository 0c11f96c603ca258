#include "python.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace teraio::cli {
namespace {

// The exit code of `python -m teraio_figures` without matplotlib, which it has reported already.
constexpr int kNoPlottingLibrary = 3;
// The exit code of an interpreter that does not find the package.
constexpr int kNoPackage = 4;

// The folder of the package teraio_figures: site-packages when this command is installed (as
// site-packages/teraio/bin/teraio), else the sources of the build.
std::filesystem::path figures_parent() {
  std::error_code unreadable;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  const std::filesystem::path installed = self.parent_path().parent_path().parent_path();
  if (!unreadable && std::filesystem::exists(installed / "teraio_figures")) return installed;
  return TERAIO_PYTHON_SOURCES;
}

void put_first_on_python_path(const std::filesystem::path& folder) {
  const char* before = std::getenv("PYTHONPATH");
  const std::string path =
      before == nullptr ? folder.string() : fmt::format("{}:{}", folder.string(), before);
  setenv("PYTHONPATH", path.c_str(), 1);
}

// Runs a command to its end, without its output if `is_quiet`. Returns its exit code, or 128 plus
// the signal that ended it.
Result<int> run_to_end(std::vector<std::string> command, bool is_quiet = false) {
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  for (const int output : {STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&quiet, output, "/dev/null", O_WRONLY, 0);
  const int error =
      posix_spawnp(&child, argv[0], is_quiet ? &quiet : nullptr, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&quiet);
  if (error != 0) return cannot_start_python(command.front(), error, "has matplotlib");
  int outcome = 0;
  while (waitpid(child, &outcome, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(outcome) ? WEXITSTATUS(outcome) : 128 + WTERMSIG(outcome);
}

}  // namespace

std::string python_interpreter() {
  const char* chosen = std::getenv("TERAIO_PYTHON");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  const std::string built_for = TERAIO_BUILD_PYTHON;
  if (!built_for.empty() && access(built_for.c_str(), X_OK) == 0) return built_for;
  return "python3";
}

Status cannot_start_python(const std::string& python, int error, std::string_view need) {
  return Status(ErrorCode::kNotFound,
                fmt::format("the Python interpreter \"{}\" cannot be started ({}): set "
                            "TERAIO_PYTHON to one that {}",
                            python, std::strerror(error), need));
}

Status check_chosen_python() {
  const char* chosen = std::getenv("TERAIO_PYTHON");
  if (chosen == nullptr || *chosen == '\0') return Status();
  const std::string look = fmt::format(
      "import importlib.util, sys\nsys.exit({} if importlib.util.find_spec('teraio') is None else "
      "0)",
      kNoPackage);
  const Result<int> code = run_to_end({chosen, "-c", look}, true);
  if (!code.ok() || *code != kNoPackage) return Status();
  return Status(ErrorCode::kNotFound,
                fmt::format("TERAIO_PYTHON is \"{}\", which does not find the package teraio: set "
                            "it to an interpreter that has torch and teraio, or add the folder of "
                            "the package to PYTHONPATH",
                            chosen));
}

Status draw_figures(const std::filesystem::path& tables) {
  put_first_on_python_path(figures_parent());
  const Result<int> code =
      run_to_end({python_interpreter(), "-m", "teraio_figures", tables.string()});
  if (!code.ok()) {
    fmt::print(stderr, "teraio: no figures: {}; the tables are in {}\n", code.status().message(),
               tables.string());
    return Status();
  }
  if (*code == 0 || *code == kNoPlottingLibrary) return Status();
  return Status(
      ErrorCode::kInternal,
      fmt::format("the figures of {} cannot be drawn: Python ended with code {}. The tables are "
                  "complete",
                  tables.string(), *code));
}

}  // namespace teraio::cli
