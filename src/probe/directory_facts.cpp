#include "probe/directory_facts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "base/sysfs.h"
#include "base/units.h"
#include "io/cufile_io.h"
#include "io/extent_file.h"
#include "io/uring_io.h"
#include "storage/ssd_store.h"

namespace teraio::probe {
namespace {

namespace fs = std::filesystem;

// mountinfo escapes blanks and some other characters in octal, as \040.
std::string unescape(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 3 < text.size();
    if (!is_escape) {
      plain += text[i];
    } else {
      plain += static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    }
  }
  return plain;
}

bool contains(const fs::path& folder, const fs::path& path) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

std::string whole_file(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<Alignment> direct_io_alignment(int fd) {
  struct statx info = {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0) return std::nullopt;
  if ((info.stx_mask & STATX_DIOALIGN) == 0) return std::nullopt;
  return Alignment{info.stx_dio_mem_align, info.stx_dio_offset_align};
}

// The folder of the drive in /sys, by device number or, if the file system hides that, by the name
// of the mount's source.
fs::path find_drive(const fs::path& directory, const std::optional<Mount>& mount,
                    const fs::path& sysfs) {
  struct stat info;
  if (stat(directory.c_str(), &info) != 0) return {};
  const fs::path known = sysfs_drive_folder(sysfs, major(info.st_dev), minor(info.st_dev));
  if (!known.empty() || !mount || mount->source.rfind("/dev/", 0) != 0) return known;
  std::error_code error;
  const fs::path folder =
      fs::canonical(sysfs / "class/block" / fs::path(mount->source).filename(), error);
  if (error) return {};
  return fs::exists(folder / "partition", error) ? folder.parent_path() : folder;
}

// Tries a buffer as large as a drive's staging ring.
Status try_registering(io::DriveIo& io) {
  const storage::SsdStoreOptions options;
  const int64_t size_bytes = 2 * options.queue_depth * options.request_bytes;
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(io::kBlockBytes, static_cast<size_t>(size_bytes))),
      &std::free);
  return io.register_memory(memory.get(), size_bytes);
}

void try_file(DirectoryFacts& facts) {
  const auto room_bytes = io::free_room_bytes(facts.directory, 0);
  if (!room_bytes.ok()) {
    facts.status = room_bytes.status();
    return;
  }
  facts.free_bytes = *room_bytes;
  const auto file = io::ExtentFile::create(facts.directory, {.size_bytes = kMiB});
  if (!file.ok()) {
    facts.status = file.status();
    return;
  }
  facts.has_direct_io = file->is_direct();
  facts.alignment = direct_io_alignment(file->fd());
  const auto uring = io::open_uring_io(file->fd(), 2);
  facts.io_uring = uring.status();
  facts.registered_buffers = uring.ok() ? try_registering(**uring) : uring.status();
}

void judge_gpu_direct(DirectoryFacts& facts, const SystemFolders& folders) {
  GpuDirectConditions conditions;
  conditions.has_gpu = !drives::find_gpus(folders.sysfs).empty();
  conditions.has_udev = fs::exists(folders.udev);
  conditions.has_nvidia_fs = fs::exists(folders.sysfs / "module/nvidia_fs");
  conditions.has_direct_io = facts.has_direct_io;
  if (facts.mount) conditions.file_system = facts.mount->file_system;
  // Loading the library makes sense only on a machine with a GPU.
  if (conditions.has_gpu) conditions.library = io::check_cufile();
  facts.gpu_direct_off = why_no_gpu_direct(conditions, facts.drive);
  if (!facts.gpu_direct_off.empty()) return;
  facts.gpu_direct_mode = conditions.has_nvidia_fs ? "nvidia-fs" : "PCI P2PDMA";
}

}  // namespace

std::optional<Mount> find_mount(const std::string& mountinfo, const fs::path& directory) {
  std::optional<Mount> found;
  size_t longest = 0;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 7 || fields.end() - dash < 4) continue;
    const std::string place = unescape(fields[4]);
    if (!contains(place, directory) || place.size() < longest) continue;
    longest = place.size();
    found = Mount{dash[1], unescape(dash[2]), fields[5] + " " + dash[3]};
  }
  return found;
}

std::string why_no_gpu_direct(const GpuDirectConditions& conditions,
                              const std::optional<drives::DriveFacts>& drive) {
  if (!conditions.has_gpu) return "no NVIDIA GPU in this machine";
  if (!drive) return "the file system hides its drive";
  const bool is_raid0 = drive->kind == "md raid0";
  if (drive->kind != "NVMe" && !is_raid0)
    return fmt::format("{} is not an NVMe drive ({})", drive->name, drive->kind);
  if (conditions.file_system != "ext4" && conditions.file_system != "xfs")
    return fmt::format("the file system is {}: expected ext4 or xfs", conditions.file_system);
  if (!conditions.has_direct_io) return "no direct I/O in the directory";
  if (is_raid0 && !conditions.has_nvidia_fs)
    return "a RAID-0 needs the kernel module nvidia-fs, which is not loaded";
  if (!conditions.has_udev) return "/run/udev is not there: a container needs it mounted";
  return conditions.library.message();
}

DirectoryFacts inspect_directory(const fs::path& directory, const SystemFolders& folders) {
  DirectoryFacts facts;
  facts.directory = directory;
  facts.status = io::check_directory(directory, false);
  std::error_code error;
  facts.mount = find_mount(whole_file(folders.mountinfo), fs::canonical(directory, error));
  const fs::path drive = find_drive(directory, facts.mount, folders.sysfs);
  if (!drive.empty()) facts.drive = drives::read_drive_facts(drive);
  if (facts.status.ok()) try_file(facts);
  if (facts.status.ok()) judge_gpu_direct(facts, folders);
  return facts;
}

}  // namespace teraio::probe
