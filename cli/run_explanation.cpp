#include "run_explanation.h"

#include <fmt/format.h>

#include "base/json_file.h"
#include "base/units.h"
#include "pattern_text.h"
#include "table.h"

namespace teraio::cli {
namespace {

std::string planned_share(const JsonNode& counts) {
  const int64_t ops = counts["ops"].non_negative_integer();
  const int64_t planned_ops = counts["planned_ops"].non_negative_integer();
  return share_text(ops == 0 ? 0 : static_cast<double>(planned_ops) / static_cast<double>(ops));
}

std::string number_of(const JsonNode& node, const char* field) {
  return fmt::format("{}", node[field].non_negative_integer());
}

std::string pattern_table(const JsonNode& patterns) {
  Table table({"pattern", "ops", "steps", "planned", "plans"});
  for (size_t i = 0; i < patterns.size(); ++i) {
    const JsonNode pattern = patterns.element(i);
    const std::string name = pattern["name"].text();
    table.add({fmt::format("{}: {}", number_of(pattern, "id"), name),
               number_of(pattern, "op_count"), number_of(pattern, "iterations"),
               planned_share(pattern), number_of(pattern, "plans")});
  }
  return table.text();
}

std::string size_of(const JsonNode& node, const char* field) {
  return format_size(node[field].non_negative_integer());
}

std::string sizes_of(const JsonNode& difference) {
  const std::string smallest = size_of(difference, "smallest_bytes");
  const std::string largest = size_of(difference, "largest_bytes");
  return smallest == largest ? smallest : fmt::format("{} to {}", smallest, largest);
}

// What the program did there, and what the pattern has.
std::string text_of(const JsonNode& difference) {
  const std::string kind = difference["kind"].text();
  const std::string expected_op = difference["expected_op"].text();
  const std::string op = difference["op"].text();
  if (kind == "end") return fmt::format("the step ended before {}", expected_op);
  if (kind == "sizes")
    return fmt::format("{} had inputs of {} instead of {}", op, sizes_of(difference),
                       size_of(difference, "expected_bytes"));
  return expected_op.empty() ? fmt::format("{} came after the last op", op)
                             : fmt::format("{} came instead of {}", op, expected_op);
}

std::string place_of(const JsonNode& difference) {
  const std::string location = difference["location"].text();
  const std::string parameter = difference["parameter"].text();
  std::string place = location.empty() ? "" : fmt::format("at {}", location);
  if (parameter.empty()) return place;
  return place + fmt::format("{}after a use of {}", place.empty() ? "" : ", ", parameter);
}

std::string difference_list(const JsonNode& differences) {
  if (differences.size() == 0) return "No step differed from the pattern that was followed.\n";
  std::string text = "What was the first to differ from the pattern that was followed:\n";
  for (size_t i = 0; i < differences.size(); ++i) {
    const JsonNode difference = differences.element(i);
    const int64_t step_count = difference["iterations"].non_negative_integer();
    text += fmt::format("- In {} step{}, {}: op {} of pattern {}.\n", step_count,
                        step_count == 1 ? "" : "s", text_of(difference),
                        number_of(difference, "position"), number_of(difference, "pattern"));
    if (const std::string place = place_of(difference); !place.empty())
      text += fmt::format("  It ran {}.\n", place);
  }
  return text;
}

}  // namespace

Result<std::string> explain_run(const std::filesystem::path& directory) {
  JsonDocument document(directory / "run.json", "teraio-run/1");
  const JsonNode& root = document.root();
  const JsonNode counters = root["counters"];
  std::string text = fmt::format("{} of the ops followed plans\n\n", planned_share(counters));
  const JsonNode patterns = root["patterns"];
  const JsonNode differences = root["differences"];
  text += pattern_table(patterns) + "\n" + difference_list(differences);
  const Status& status = document.status();
  if (!status.ok())
    return Status(status.code(), status.message() + ". Expected what `teraio run --report` writes")
        .with_details(status.details());
  return text;
}

}  // namespace teraio::cli
