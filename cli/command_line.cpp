// The command line as a whole: unknown commands, and the exit codes of wrong use.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"

namespace teraio::cli {
namespace {

constexpr int kWrongUse = 2;

// Returns how many letters must be inserted, removed or replaced to make one word of the other.
size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (const char letter : from) {
    size_t diagonal = row[0]++;
    for (size_t column = 1; column <= to.size(); ++column) {
      const size_t replaced = diagonal + (letter == to[column - 1] ? 0 : 1);
      diagonal = row[column];
      row[column] = std::min({replaced, row[column] + 1, row[column - 1] + 1});
    }
  }
  return row.back();
}

// Returns the command with the nearest name; empty when no name resembles the word.
std::string nearest_command(const CLI::App& app, std::string_view word) {
  std::string nearest;
  size_t least = word.size() / 2 + 1;  // at least half of the letters are right
  for (const CLI::App* command : app.get_subcommands({})) {
    const size_t distance = edit_distance(word, command->get_name());
    if (distance >= least) continue;
    least = distance;
    nearest = command->get_name();
  }
  return nearest;
}

// Tells whether the word is a command, or an option of `teraio` itself.
bool is_known(const CLI::App& app, const std::string& word) {
  const auto commands = app.get_subcommands({});
  if (app.get_option_no_throw(word) != nullptr) return true;
  return std::any_of(commands.begin(), commands.end(),
                     [&](const CLI::App* command) { return command->get_name() == word; });
}

int wrong_use(const std::string& message) {
  fmt::print(stderr, "teraio: {}\n", message);
  return kWrongUse;
}

int unknown_command(const CLI::App& app, std::string_view word) {
  const std::string nearest = nearest_command(app, word);
  return wrong_use(
      fmt::format("\"{}\" is not a command{}; \"teraio --help\" lists all commands", word,
                  nearest.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", nearest)));
}

int wrong_words(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const std::string command = chosen.empty() ? "teraio" : "teraio " + chosen.front()->get_name();
  return wrong_use(fmt::format("{}; \"{} --help\" lists all {}", error.what(), command,
                               chosen.empty() ? "commands" : "options"));
}

}  // namespace

int run_command_line(CLI::App& app, int argc, char** argv) {
  if (argc > 1 && !is_known(app, argv[1])) return unknown_command(app, argv[1]);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::RuntimeError& error) {  // of a command, which has told it
    return error.get_exit_code();
  } catch (const CLI::Success& wish) {  // --help, --version
    return app.exit(wish);
  } catch (const CLI::ParseError& error) {
    return wrong_words(app, error);
  }
}

}  // namespace teraio::cli
