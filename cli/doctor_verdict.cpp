#include "doctor_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace teraio::cli {
namespace {

using probe::DirectoryFacts;

// A model with a billion parameters has states of 16 GB in fp32 with AdamW.
constexpr int64_t kFewFreeBytes = 16'000'000'000;

std::string count_text(std::span<const DirectoryFacts> directories) {
  const auto usable_count =
      std::ranges::count_if(directories, [](const auto& facts) { return facts.status.ok(); });
  if (usable_count == 0) return "No directory can hold tensors";
  if (directories.size() == 1) return "The directory can hold tensors";
  if (static_cast<size_t>(usable_count) == directories.size())
    return fmt::format("All {} directories can hold tensors", directories.size());
  return fmt::format("{} of {} directories can hold tensors", usable_count, directories.size());
}

std::vector<std::string> faults_of(const DirectoryFacts& facts, bool has_gpu) {
  std::vector<std::string> faults;
  if (!facts.has_direct_io)
    faults.emplace_back(
        "transfers go through the page cache, because the file system has no "
        "direct I/O: ext4 and xfs on a local drive have it");
  if (!facts.io_uring.ok())
    faults.emplace_back("threads make the transfers, because io_uring is not allowed here");
  if (has_gpu && !facts.gpu_direct_off.empty())
    faults.push_back("transfers to the GPU go through host memory: " + facts.gpu_direct_off);
  if (facts.drive && facts.drive->link.is_reduced())
    faults.emplace_back("the drive's PCIe link is slower than the drive's own: look at the slot");
  if (facts.free_bytes < kFewFreeBytes)
    faults.push_back(fmt::format("{} are free, which a model with a billion parameters exceeds",
                                 format_size(facts.free_bytes)));
  return faults;
}

std::string shared_drives_text(std::span<const DirectoryFacts> directories) {
  std::map<std::string_view, int> directories_of;
  for (const DirectoryFacts& facts : directories)
    if (facts.status.ok() && facts.drive) ++directories_of[facts.drive->name];
  std::string text;
  for (const auto& [drive, count] : directories_of)
    if (count > 1)
      text +=
          fmt::format("  {} directories share the drive {}: give one per drive\n", count, drive);
  return text;
}

std::string next_command(std::span<const DirectoryFacts> directories) {
  std::string command = "teraio suggest";
  for (const DirectoryFacts& facts : directories)
    if (facts.status.ok()) command += fmt::format(" --ssd {}", facts.directory.string());
  return command + " train.py";
}

}  // namespace

std::string verdict_of(std::span<const DirectoryFacts> directories, bool has_gpu) {
  std::string text = fmt::format("Verdict: {}.\n", count_text(directories));
  for (const DirectoryFacts& facts : directories) {
    if (!facts.status.ok()) continue;
    for (const std::string& fault : faults_of(facts, has_gpu))
      text += fmt::format("  {}: {}\n", facts.directory.string(), fault);
  }
  text += shared_drives_text(directories);
  const bool is_any_usable =
      std::ranges::any_of(directories, [](const auto& facts) { return facts.status.ok(); });
  if (!is_any_usable) return text + "Next: teraio doctor --ssd DIR, with a directory on a drive\n";
  return text + fmt::format("Next: {}\n", next_command(directories));
}

}  // namespace teraio::cli
