// DirectoryFacts: what a user needs to know about a directory before tensors are stored there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/status.h"
#include "drives/drive_facts.h"

namespace teraio::probe {

struct Mount {
  std::string file_system;  // "ext4"
  std::string source;       // "/dev/nvme0n1p2"
  std::string options;      // of the mount and of the file system
};

// Parses the text of /proc/self/mountinfo. Returns the mount with the longest path that contains
// `directory` (canonical); the last one if there are several.
std::optional<Mount> find_mount(const std::string& mountinfo,
                                const std::filesystem::path& directory);

struct Alignment {
  int64_t memory_bytes = 0;
  int64_t offset_bytes = 0;
};

struct DirectoryFacts {
  std::filesystem::path directory;
  Status status;  // if not ok, the directory is unusable; only mount and drive are set
  std::optional<Mount> mount;
  int64_t free_bytes = 0;
  bool has_direct_io = false;
  std::optional<Alignment> alignment;  // required by the kernel; nullopt if it does not report it
  Status io_uring;                     // ok, or the reason why not
  Status registered_buffers;  // for a buffer like a staging ring; ok, or the reason why not
  std::optional<drives::DriveFacts> drive;  // nullopt if the file system hides the drive
  std::string gpu_direct_off;               // why GPUDirect Storage is off; empty if it can be used
  std::string gpu_direct_mode;              // if it can be used: "nvidia-fs" or "PCI P2PDMA"
};

// Where to look. Tests pass captured trees.
struct SystemFolders {
  std::filesystem::path sysfs = "/sys";
  std::filesystem::path mountinfo = "/proc/self/mountinfo";
  std::filesystem::path udev = "/run/udev";
};

// Examines a directory. Creates a small unnamed file in it, which disappears on return. Any thread.
DirectoryFacts inspect_directory(const std::filesystem::path& directory,
                                 const SystemFolders& folders);

// The conditions for GPUDirect Storage, short of a trial.
struct GpuDirectConditions {
  bool has_gpu = false;
  bool has_udev = false;
  bool has_nvidia_fs = false;  // the kernel module
  bool has_direct_io = false;
  std::string file_system;
  Status library;  // libcufile
};

// Returns the first condition that is not met, most basic first; empty if all are met.
std::string why_no_gpu_direct(const GpuDirectConditions& conditions,
                              const std::optional<drives::DriveFacts>& drive);

}  // namespace teraio::probe
