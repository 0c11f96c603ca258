// `teraio characterize`: shows the memory that traces use, how long their tensors are idle, and the
// migration bandwidth that would suffice.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/characterization.h"
#include "base/units.h"
#include "commands.h"
#include "hardware/hardware.h"
#include "inputs.h"
#include "progress.h"
#include "python.h"
#include "table.h"
#include "trace/trace_file.h"

namespace teraio::cli {
namespace {

constexpr int64_t kGigabyte = 1'000'000'000;
constexpr std::array<int64_t, 12> kRooflineRates = {
    1 * kGigabyte,  2 * kGigabyte,  4 * kGigabyte,  8 * kGigabyte,
    12 * kGigabyte, 16 * kGigabyte, 24 * kGigabyte, 32 * kGigabyte,
    48 * kGigabyte, 64 * kGigabyte, 96 * kGigabyte, 128 * kGigabyte};

struct CharacterizeCommand {
  explicit CharacterizeCommand(CLI::App& command) {
    command.add_option("traces", traces, "Trace files, one per model, rank or stage")
        ->type_name("FILE")
        ->required();
    auto* machine =
        command
            .add_option("--hardware", hardware, "Hardware file whose device memory is the capacity")
            ->type_name("FILE");
    command.add_option("--device-memory", device_memory, "Device memory, such as 94GB")
        ->type_name("SIZE")
        ->excludes(machine);
    command.add_option("--top", top, "Number of tensors to list")
        ->type_name("N")
        ->capture_default_str()
        ->check(positive_number());
    command.add_option("--out", out, "Write tables (JSON) and figures (SVG, PNG) into this folder")
        ->type_name("DIR");
  }
  void run() const;
  std::optional<int64_t> capacity() const;
  analysis::CharacterizedTrace characterized(const std::string& path,
                                             std::optional<int64_t> capacity_bytes,
                                             std::string& notes) const;

  std::vector<std::string> traces;
  std::string hardware;
  std::string device_memory;
  std::string out;
  size_t top = 10;
};

// Formats a share of `whole` in percent, with enough digits for very small ones.
std::string share(double part, double whole) {
  const double percent = whole > 0 ? 100 * part / whole : 0;
  return percent > 0 && percent < 1 ? fmt::format("{:.2g} %", percent)
                                    : fmt::format("{:.1f} %", percent);
}

std::string share_of_counts(int64_t part, int64_t whole) {
  return share(static_cast<double>(part), static_cast<double>(whole));
}

std::string phases_text(const analysis::CharacterizedTrace& given) {
  const analysis::Characterization& facts = given.facts;
  const int64_t whole_bytes = given.capacity_bytes.value_or(facts.phases.back().all_bytes_max);
  const auto of_whole = [&](double bytes) {
    return share(bytes, static_cast<double>(whole_bytes));
  };
  Table table(
      {"phase", "ops", "time", "all, most", "active, most", "active, mean", "mean in time"});
  for (const analysis::PhaseMemory& phase : facts.phases)
    table.add({phase.name, std::to_string(phase.op_count), format_duration(phase.duration_ns),
               of_whole(static_cast<double>(phase.all_bytes_max)),
               of_whole(static_cast<double>(phase.active_bytes_max)),
               of_whole(phase.active_bytes_mean), of_whole(phase.active_bytes_mean_in_time)});
  return fmt::format("memory, of the {} ({}); active is what an op uses while it runs\n{}",
                     given.capacity_bytes ? "device's capacity" : "trace's own peak",
                     format_size(whole_bytes), table.text());
}

std::string kinds_text(const analysis::Characterization& facts) {
  Table table({"kind", "tensors", "median size", "10 MB-1 GB", "> 100 MB", "idle > 10 ms",
               "periods", "median idle", "> 10 ms"});
  for (const analysis::KindSummary& kind : facts.kinds)
    table.add({kind.kind, std::to_string(kind.tensor_count), format_size(kind.median_bytes),
               share_of_counts(kind.middle_count, kind.tensor_count),
               share_of_counts(kind.large_count, kind.tensor_count),
               share_of_counts(kind.long_tensor_count, kind.tensor_count),
               std::to_string(kind.period_count), format_duration(kind.median_idle_ns),
               share_of_counts(kind.long_period_count, kind.period_count)});
  return "tensors that ops use, and the periods between two uses\n" + table.text();
}

std::string tensors_text(const std::string& what, const std::vector<analysis::IdleTensor>& tensors,
                         const analysis::CharacterizedTrace& given) {
  Table table({what, "kind", "size", "uses", "longest idle", "of the step"});
  for (const analysis::IdleTensor& listed : tensors) {
    const trace::Tensor& tensor = given.trace.tensors[listed.tensor];
    table.add({listed.label, std::string(to_string(tensor.kind)), format_size(tensor.size_bytes),
               std::to_string(listed.use_count), format_duration(listed.longest_idle_ns),
               share_of_counts(listed.longest_idle_ns, given.facts.step_ns)});
  }
  return table.text();
}

std::string roofline_text(const analysis::CharacterizedTrace& given) {
  if (given.roofline.empty()) return "";
  Table table({"migration bandwidth, each way", "at most, of ideal"});
  for (const analysis::RooflinePoint& point : given.roofline)
    table.add({format_size(point.bytes_per_second) + "/s",
               fmt::format("{:.1f} %", 100 * point.fraction_of_ideal)});
  return "\n" + table.text();
}

std::string text_of(const analysis::CharacterizedTrace& given) {
  return fmt::format("{} ({}): {} ops, {}\n\n{}\n{}{}\n{}\n{}", given.trace.name,
                     given.trace.source, given.trace.ops.size(),
                     format_duration(given.facts.step_ns), phases_text(given),
                     kinds_text(given.facts), roofline_text(given),
                     tensors_text("largest", given.facts.largest, given),
                     tensors_text("longest idle", given.facts.longest_idle, given));
}

std::optional<int64_t> CharacterizeCommand::capacity() const {
  if (!device_memory.empty()) {
    const int64_t bytes = size_or_fail("--device-memory", device_memory);
    if (bytes > 0) return bytes;
    fail(Status(ErrorCode::kInvalidArgument, "--device-memory: expected more than 0 bytes"));
  }
  if (hardware.empty()) return std::nullopt;
  return value_or_fail(hardware::read_hardware(hardware)).device_memory_bytes;
}

analysis::CharacterizedTrace CharacterizeCommand::characterized(
    const std::string& path, std::optional<int64_t> capacity_bytes, std::string& notes) const {
  analysis::CharacterizedTrace given{
      value_or_fail(trace::read_trace(path)), {}, capacity_bytes, {}};
  given.facts = analysis::characterize(given.trace, top);
  if (!capacity_bytes) return given;
  Result<std::vector<analysis::RooflinePoint>> roofline =
      analysis::migration_roofline(given.trace, *capacity_bytes, kRooflineRates);
  if (roofline.ok())
    given.roofline = std::move(*roofline);
  else
    notes += fmt::format("{}: no roofline: {}\n", path, roofline.status().message());
  return given;
}

void CharacterizeCommand::run() const {
  const std::optional<int64_t> capacity_bytes = capacity();
  if (!out.empty()) make_folder_or_fail(out);
  std::vector<analysis::CharacterizedTrace> all;
  std::string notes;
  Progress progress;
  for (const std::string& path : traces) {
    progress.show(fmt::format("{} ...", path));
    all.push_back(characterized(path, capacity_bytes, notes));
  }
  progress.show("");
  for (const analysis::CharacterizedTrace& given : all)
    fmt::print("{}{}", &given == &all.front() ? "" : "\n\n", text_of(given));
  if (!capacity_bytes) notes += "no roofline: it needs a capacity, --hardware or --device-memory\n";
  if (!notes.empty()) fmt::print("\n{}", notes);
  if (out.empty()) return;
  const std::filesystem::path tables = std::filesystem::path(out) / "characterization.json";
  if (const Status written = write_characterizations(all, tables); !written.ok()) fail(written);
  progress.show("drawing ...");
  if (const Status drawn = draw_figures(tables); !drawn.ok()) fail(drawn);
}

}  // namespace

void add_characterize_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "characterize", "Show the memory of a trace per op, and how long its tensors are idle");
  auto options = std::make_shared<CharacterizeCommand>(*command);
  command->callback([options] { options->run(); });
}

}  // namespace teraio::cli
