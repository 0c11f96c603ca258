// `teraio doctor`: what the directories and drives of this machine support, and what limits them.
#include <fmt/format.h>
#include <sys/resource.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/units.h"
#include "commands.h"
#include "device/system_memory.h"
#include "doctor_verdict.h"
#include "drives/drive_endurance.h"
#include "probe/directory_facts.h"

namespace teraio::cli {
namespace {

struct Arguments {
  std::vector<std::string> directories;
  std::string sysfs = "/sys";
  std::string rated_writes;
  bool json = false;
};

struct System {
  int64_t memory_lock_bytes = 0;  // -1: no limit
  std::vector<drives::GpuFacts> gpus;
  device::SystemMemory memory;
};

System inspect_system(const std::string& sysfs) {
  rlimit limit;
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const bool is_unlimited = limit.rlim_cur == RLIM_INFINITY;
  return {is_unlimited ? -1 : static_cast<int64_t>(limit.rlim_cur), drives::find_gpus(sysfs),
          device::read_system_memory(sysfs)};
}

std::string huge_pages_text(const device::SystemMemory& memory) {
  const std::string& transparent = memory.transparent_huge_pages;
  return fmt::format("transparent: {}; reserved: {} free", transparent.empty() ? "no" : transparent,
                     memory.free_reserved_huge_pages);
}

std::string numa_text(const device::SystemMemory& memory) {
  if (memory.numa_nodes.size() < 2) return "one: placement of host memory does not matter";
  return fmt::format("{} with memory ({}): host memory is placed near the device, else the drive",
                     memory.numa_nodes.size(), fmt::join(memory.numa_nodes, ", "));
}

std::string to_text(const drives::PciLink& link) {
  if (link.speed.empty()) return "unknown";
  const std::string text = fmt::format("{} x{}", link.speed, link.width);
  if (!link.is_reduced()) return text;
  return text + fmt::format(" (could do {} x{})", link.speed_max, link.width_max);
}

std::string to_text(const drives::Temperature& temperature) {
  std::string text = fmt::format("{:.0f} C", temperature.celsius);
  if (temperature.limit_celsius)
    text += fmt::format(", slows down at {:.0f} C", *temperature.limit_celsius);
  return text;
}

std::string to_text(const std::optional<probe::Alignment>& alignment) {
  if (!alignment) return "yes";
  return fmt::format("yes, memory aligned to {}, offsets to {} (TERAIO uses 4096)",
                     alignment->memory_bytes, alignment->offset_bytes);
}

std::string title(const drives::DriveFacts& drive) {
  std::string text = fmt::format("{} ({}", drive.name, drive.kind);
  for (const std::string& part : {drive.model, drive.serial, drive.firmware})
    if (!part.empty()) text += ", " + part;
  return text + fmt::format("), {}", format_size(drive.size_bytes));
}

// The rated writes of a drive: the user's value, else that of the table; 0 when unknown.
int64_t rated_bytes(const drives::DriveFacts& drive, const Arguments& arguments) {
  if (!arguments.rated_writes.empty())
    return size_or_fail("--rated-writes", arguments.rated_writes);
  const auto rating = drives::rated_endurance(drive.model);
  return rating ? rating->bytes_written : 0;
}

std::string wear_text(const drives::DriveFacts& drive, const Arguments& arguments) {
  std::string text = format_size(drive.bytes_written) + " since the system started";
  const int64_t rated = rated_bytes(drive, arguments);
  if (rated == 0) return text + "; its rated writes are unknown (set --rated-writes)";
  const auto rating = drives::rated_endurance(drive.model);
  return text + fmt::format("; rated for {} ({})", format_size(rated),
                            arguments.rated_writes.empty() && rating ? rating->source : "given");
}

void print_line(std::string_view name, std::string_view text) {
  if (!text.empty()) fmt::print("  {:<20} {}\n", name, text);
}

void print_drive(const drives::DriveFacts& drive, const System& system,
                 const Arguments& arguments) {
  print_line("drive", title(drive));
  if (!drive.pci_address.empty()) {
    print_line("link", fmt::format("{} at {}", to_text(drive.link), drive.pci_address));
    print_line("NUMA node", drive.numa_node < 0 ? "unknown" : std::to_string(drive.numa_node));
    for (const drives::GpuFacts& gpu : system.gpus)
      print_line("to GPU " + gpu.pci_address, describe_distance(drive, gpu));
  }
  if (drive.temperature) print_line("temperature", to_text(*drive.temperature));
  if (drive.members.empty()) print_line("written", wear_text(drive, arguments));
  for (const drives::DriveFacts& member : drive.members) print_drive(member, system, arguments);
}

void print_directory(const probe::DirectoryFacts& facts, const System& system,
                     const Arguments& arguments) {
  fmt::print("\n{}\n", facts.directory.string());
  print_line("usable", facts.status.ok() ? "yes" : "NO: " + facts.status.message());
  if (facts.mount)
    print_line("file system", fmt::format("{} on {} ({})", facts.mount->file_system,
                                          facts.mount->source, facts.mount->options));
  if (facts.status.ok()) {
    print_line("free", format_size(facts.free_bytes));
    print_line("direct I/O", facts.has_direct_io ? to_text(facts.alignment)
                                                 : "no: through the page cache, slower");
    print_line("io_uring", facts.io_uring.ok()
                               ? "yes"
                               : "no: " + facts.io_uring.message() + "; threads instead");
    if (facts.io_uring.ok())
      print_line("registered buffers", facts.registered_buffers.ok()
                                           ? "yes, where transfers are staged for a device"
                                           : "no: " + facts.registered_buffers.message());
    print_line("GPUDirect Storage", facts.gpu_direct_off.empty()
                                        ? facts.gpu_direct_mode + ", verified when a run begins"
                                        : "off: " + facts.gpu_direct_off);
  }
  if (facts.drive)
    print_drive(*facts.drive, system, arguments);
  else
    print_line("drive", "hidden by the file system");
}

nlohmann::ordered_json to_json(const drives::DriveFacts& drive, const System& system,
                               const Arguments& arguments) {
  nlohmann::ordered_json json{{"name", drive.name},
                              {"kind", drive.kind},
                              {"model", drive.model},
                              {"serial", drive.serial},
                              {"firmware", drive.firmware},
                              {"size_bytes", drive.size_bytes},
                              {"pci_address", drive.pci_address},
                              {"link_speed", drive.link.speed},
                              {"link_width", drive.link.width},
                              {"is_link_reduced", drive.link.is_reduced()},
                              {"numa_node", drive.numa_node},
                              {"bytes_written", drive.bytes_written},
                              {"rated_bytes_written", rated_bytes(drive, arguments)}};
  if (drive.temperature) json["temperature_celsius"] = drive.temperature->celsius;
  for (const drives::GpuFacts& gpu : system.gpus)
    json["gpu_distances"].push_back(
        {{"gpu", gpu.pci_address}, {"distance", describe_distance(drive, gpu)}});
  for (const drives::DriveFacts& member : drive.members)
    json["members"].push_back(to_json(member, system, arguments));
  return json;
}

nlohmann::ordered_json to_json(const probe::DirectoryFacts& facts, const System& system,
                               const Arguments& arguments) {
  nlohmann::ordered_json json{{"directory", facts.directory.string()},
                              {"is_usable", facts.status.ok()},
                              {"problem", facts.status.message()}};
  if (facts.mount) {
    json["file_system"] = facts.mount->file_system;
    json["mount_source"] = facts.mount->source;
    json["mount_options"] = facts.mount->options;
  }
  if (facts.status.ok()) {
    json["free_bytes"] = facts.free_bytes;
    json["has_direct_io"] = facts.has_direct_io;
    json["has_io_uring"] = facts.io_uring.ok();
    json["io_uring_problem"] = facts.io_uring.message();
    json["has_registered_buffers"] = facts.registered_buffers.ok();
    json["registered_buffers_problem"] = facts.registered_buffers.message();
    json["gpu_direct_mode"] = facts.gpu_direct_off.empty() ? facts.gpu_direct_mode : "off";
    json["gpu_direct_problem"] = facts.gpu_direct_off;
  }
  if (facts.alignment) {
    json["memory_alignment_bytes"] = facts.alignment->memory_bytes;
    json["offset_alignment_bytes"] = facts.alignment->offset_bytes;
  }
  if (facts.drive) json["drive"] = to_json(*facts.drive, system, arguments);
  return json;
}

void print_json(const std::vector<probe::DirectoryFacts>& directories, const System& system,
                const Arguments& arguments) {
  nlohmann::ordered_json json{{"memory_lock_limit_bytes", system.memory_lock_bytes},
                              {"numa_nodes", system.memory.numa_nodes},
                              {"transparent_huge_pages", system.memory.transparent_huge_pages},
                              {"free_reserved_huge_pages", system.memory.free_reserved_huge_pages},
                              {"gpus", nlohmann::json::array()},
                              {"directories", nlohmann::json::array()}};
  for (const drives::GpuFacts& gpu : system.gpus)
    json["gpus"].push_back({{"pci_address", gpu.pci_address}, {"numa_node", gpu.numa_node}});
  for (const probe::DirectoryFacts& facts : directories)
    json["directories"].push_back(to_json(facts, system, arguments));
  fmt::print("{}\n", json.dump(1));
}

void print_text(const std::vector<probe::DirectoryFacts>& directories, const System& system,
                const Arguments& arguments) {
  fmt::print("{:<22} {}\n", "memory-lock limit",
             system.memory_lock_bytes < 0 ? "none" : format_size(system.memory_lock_bytes));
  fmt::print("{:<22} {}\n", "huge pages", huge_pages_text(system.memory));
  fmt::print("{:<22} {}\n", "NUMA nodes", numa_text(system.memory));
  if (system.gpus.empty()) fmt::print("{:<22} none\n", "NVIDIA GPUs");
  for (const drives::GpuFacts& gpu : system.gpus)
    fmt::print("{:<22} {}, NUMA node {}\n", "NVIDIA GPU", gpu.pci_address,
               gpu.numa_node < 0 ? "unknown" : std::to_string(gpu.numa_node));
  for (const probe::DirectoryFacts& facts : directories) print_directory(facts, system, arguments);
  fmt::print("\n{}", verdict_of(directories, !system.gpus.empty()));
}

void doctor(const Arguments& arguments) {
  const System system = inspect_system(arguments.sysfs);
  probe::SystemFolders folders;
  folders.sysfs = arguments.sysfs;
  std::vector<probe::DirectoryFacts> directories;
  bool are_all_usable = true;
  for (const std::string& directory : arguments.directories) {
    directories.push_back(inspect_directory(directory, folders));
    are_all_usable = are_all_usable && directories.back().status.ok();
  }
  arguments.json ? print_json(directories, system, arguments)
                 : print_text(directories, system, arguments);
  if (!are_all_usable) throw CLI::RuntimeError(1);
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("doctor", "Report what directories and drives support");
  auto arguments = std::make_shared<Arguments>();
  arguments->directories = {"."};
  command
      ->add_option("DIR,--ssd", arguments->directories,
                   "Directories to inspect (default: the current one)")
      ->type_name("DIR");
  command
      ->add_option("--rated-writes", arguments->rated_writes,
                   "Rated writes of the drives, such as 1200TB (default: from a table of models)")
      ->type_name("SIZE");
  command->add_option("--sysfs", arguments->sysfs, "Captured tree to read instead of /sys")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory);
  command->add_flag("--json", arguments->json, "Print JSON for scripts");
  command->callback([arguments] { doctor(*arguments); });
}

}  // namespace teraio::cli
