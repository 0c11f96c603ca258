#include "help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace teraio::cli {
namespace {

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

bool repeats(const CLI::Option& option) {
  return option.get_expected_max() == CLI::detail::expected_max_vector_size;
}

// The name of an option's value, without what its validators add to it after a colon.
std::string value_name(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return takes_value(option) ? type.substr(0, type.find(':')) : "";
}

std::string names_of(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) names.push_back(option->get_name());
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string help_of(const CLI::Option& option) {
  std::string help = option.get_description();
  if (option.get_required()) help += " (required)";
  if (!option.get_default_str().empty())
    help += fmt::format(" (default: {})", option.get_default_str());
  if (!option.get_excludes().empty())
    help += fmt::format(" (not with {})", names_of(option.get_excludes()));
  return help;
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = repeats(*option) ? " ..." : "";
    const std::string value = value_name(*option);
    const bool is_told = value.empty() || value == option->get_name(true, false);
    return is_told ? text : " " + value + text;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return help_of(*option);
  }
};

nlohmann::json description_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return {{"names", names},
          {"positional", option.get_positional() ? option.get_name(true, false) : ""},
          {"value", value_name(option)},
          {"repeats", repeats(option)},
          {"help", help_of(option)}};
}

std::string usage_of(const CLI::App& app) {
  const CLI::App* const parent = app.get_parent();
  const std::string program = parent == nullptr ? "" : parent->get_name();
  const auto formatter = std::dynamic_pointer_cast<CLI::Formatter>(app.get_formatter());
  return formatter->make_usage(&app,
                               program.empty() ? app.get_name() : program + " " + app.get_name());
}

nlohmann::json description_of(const CLI::App& app) {
  nlohmann::json options = nlohmann::json::array(), commands = nlohmann::json::array();
  for (const CLI::Option* option : app.get_options())
    if (option != app.get_help_ptr() && !option->get_group().empty())
      options.push_back(description_of(*option));
  for (const CLI::App* command : app.get_subcommands({}))
    commands.push_back(description_of(*command));
  return {{"name", app.get_name()}, {"description", app.get_description()},
          {"usage", usage_of(app)}, {"footer", app.get_footer()},
          {"options", options},     {"commands", commands}};
}

}  // namespace

CLI::Option* accept_only(CLI::Option* option, const std::vector<std::string>& words) {
  std::map<std::string, std::string> same;
  for (const std::string& word : words) same[word] = word;
  return accept_only_parsed_as(option, same);
}

CLI::Option* accept_only_parsed_as(CLI::Option* option,
                                   const std::map<std::string, std::string>& parsed_by_word) {
  std::vector<std::string> words;
  for (const auto& [word, parsed] : parsed_by_word) words.push_back(word);
  const auto parse = [parsed_by_word, words](std::string& word) -> std::string {
    const auto found = parsed_by_word.find(word);
    if (found == parsed_by_word.end())
      return fmt::format("expected {}, found \"{}\"", fmt::join(words, ", "), word);
    word = found->second;
    return "";
  };
  return option->transform(CLI::Validator(parse, ""))
      ->type_name(fmt::format("{{{}}}", fmt::join(words, ",")));
}

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpFormatter>(); }

void add_describe_option(CLI::App& app) {
  app.add_flag_callback(
         "--describe",
         [&app] {
           fmt::print("{}\n", description_of(app).dump());
           throw CLI::Success();
         },
         "Print the options of all commands as JSON")
      ->group("");
}

}  // namespace teraio::cli
