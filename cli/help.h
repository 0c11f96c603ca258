// What `--help` shows, and the same as JSON for shell completion.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace teraio::cli {

// Lets an option accept only some words, which the help shows as {best,fast}.
CLI::Option* accept_only(CLI::Option* option, const std::vector<std::string>& words);

// The same, and CLI11 parses what stands for the given word.
CLI::Option* accept_only_parsed_as(CLI::Option* option,
                                   const std::map<std::string, std::string>& parsed_by_word);

// The same for an option whose variable becomes the enumerator of the given word. The help shows
// the word of `present`, the variable's value without the option, if given.
template <typename Value>
CLI::Option* accept_only(CLI::Option* option, const std::map<std::string, Value>& values,
                         std::optional<std::type_identity_t<Value>> present = {}) {
  std::map<std::string, std::string> numbers;
  for (const auto& [word, value] : values) {
    numbers[word] = std::to_string(static_cast<int>(value));
    if (value == present) option->default_str(word);
  }
  return accept_only_parsed_as(option, numbers);
}

// Writes an option as "--out FILE ..." with "(required)" or its default at the end of its text.
std::shared_ptr<CLI::FormatterBase> help_formatter();

// Adds the hidden option --describe: prints the options and help of every subcommand as JSON, which
// python/teraio/reference reads. The object of a command is
//   {"name": "plan", "description": "...", "usage": "teraio plan [OPTIONS]", "footer": "...",
//    "options": [{"names": ["-o", "--out"], "positional": "", "value": "FILE", "repeats": false,
//                 "help": "..."}],
//    "commands": []}
void add_describe_option(CLI::App& app);

}  // namespace teraio::cli
