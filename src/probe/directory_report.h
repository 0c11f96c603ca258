// DirectoryReport: what a person has to know of a directory before tensors go to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "drives/drive_facts.h"

namespace teraio::probe {

struct Mount {
  std::string file_system;  // "ext4"
  std::string source;       // "/dev/nvme0n1p2"
  std::string options;      // of the mount and of the file system
};

// Of the last line in /proc/self/mountinfo that mounts `directory` (canonical) or what it is in.
std::optional<Mount> find_mount(const std::string& mountinfo,
                                const std::filesystem::path& directory);

struct Alignment {
  int64_t memory_bytes = 0;
  int64_t offset_bytes = 0;
};

struct DirectoryReport {
  std::filesystem::path directory;
  Status status;  // not ok: it cannot be used, and nothing below but the drive is known
  std::optional<Mount> mount;
  int64_t free_bytes = 0;
  bool has_direct_io = false;
  std::optional<Alignment> alignment;  // that the kernel asks for; nullopt: it does not tell
  Status io_uring;                     // ok, or why not
  Status registered_buffers;           // with io_uring, as large as a staging ring; ok, or why not
  std::optional<drives::DriveFacts> drive;  // nullopt: the file system hides it
  std::string gpu_direct_off;               // why GPUDirect Storage is off; empty: its way is open
  std::string gpu_direct_mode;              // then "nvidia-fs" or "PCI P2PDMA"
};

// Where to look; captured trees stand in for them in tests.
struct SystemFolders {
  std::filesystem::path sysfs = "/sys";
  std::filesystem::path mountinfo = "/proc/self/mountinfo";
  std::filesystem::path udev = "/run/udev";
};

// Creates a small file there, which has no name, and leaves none.
DirectoryReport inspect_directory(const std::filesystem::path& directory,
                                  const SystemFolders& folders);

// What decides about GPUDirect Storage, short of trying it.
struct GpuDirectConditions {
  bool has_gpu = false;
  bool has_udev = false;
  bool has_nvidia_fs = false;  // the kernel module
  bool has_direct_io = false;
  std::string file_system;
  Status library;  // libcufile
};

// The first condition that is not met, most basic first; empty: none.
std::string why_no_gpu_direct(const GpuDirectConditions& conditions,
                              const std::optional<drives::DriveFacts>& drive);

}  // namespace teraio::probe
